"""Modules whose score would depend on who else is there, or on chance, are refused."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from time import sleep

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fedcox.errors import WeightsError
from fedcox.models.architecture import AbstractArchitecture, OwnModule, TileScorer
from fedcox.models.modules import (
    assign,
    build,
    check_module,
    flatten,
    pieces,
    size,
    split,
    start,
    trainable,
)
from fedcox.models.neural import NeuralModel
from tests.models.network_examples import ARCHITECTURES, COLUMNS, GRID, patients_with_slides


def after_linear(part: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Linear(COLUMNS, 4), part, nn.Linear(4, 1))


@pytest.mark.parametrize(
    ("part", "sentence"),
    [
        (nn.BatchNorm1d(4), "mixes the patients"),
        (nn.Dropout(0.5), "at random"),
        (nn.AlphaDropout(0.1), "at random"),
        (nn.InstanceNorm1d(4, track_running_stats=True), "keeps statistics"),
        (nn.LSTM(4, 4, 2, dropout=0.2), "at random"),
        (nn.LazyLinear(4), "no shape yet"),
    ],
)
def test_parts_that_break_a_rule_are_named(part: nn.Module, sentence: str) -> None:
    with pytest.raises(WeightsError, match=sentence):
        check_module("mine", after_linear(part))


@pytest.mark.parametrize(
    "part", [nn.LayerNorm(4), nn.Dropout(0.0), nn.BatchNorm1d(4).eval(), nn.Dropout(0.5).eval()]
)
def test_parts_that_do_nothing_of_the_kind_pass(part: nn.Module) -> None:
    check_module("mine", after_linear(part))


def test_all_faults_are_named_at_once() -> None:
    with pytest.raises(WeightsError) as caught:
        build(
            OwnModule(
                "mine",
                "table",
                lambda: nn.Sequential(
                    nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(), nn.Linear(4, 1)
                ),
            )
        )
    assert len(caught.value.faults) == 2


def test_what_is_no_module_or_has_nothing_to_train_is_refused() -> None:
    with pytest.raises(WeightsError, match="no torch module"):
        check_module("mine", len)
    with pytest.raises(WeightsError, match="nothing to train"):
        check_module("mine", nn.ReLU())


DRAWS = count()


class Own(nn.Module):
    """A module with something in its own code that its parts do not show."""

    def __init__(self, change: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.layer = nn.Linear(COLUMNS, 1)
        self.change = change

    def forward(self, rows: Tensor) -> Tensor:
        return self.change(self.layer(rows))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda score: score - score.mean(), "when others are there"),
        # What is drawn must differ each time, or the test would fail once in a while.
        (lambda score: score + next(DRAWS), "another score each time"),
    ],
)
def test_mixing_and_chance_in_own_code_are_found_when_it_is_first_used(
    change: Callable[[Tensor], Tensor], sentence: str
) -> None:
    cohort = patients_with_slides(4)
    own = OwnModule("mine", "table", lambda: Own(change))
    model = NeuralModel(own, "logit", GRID.intervals)
    with pytest.raises(WeightsError, match=sentence):
        model.slide_scores(start(own, 0), model.lay_out(cohort, None))


@pytest.mark.parametrize("architecture", ARCHITECTURES.values(), ids=ARCHITECTURES.keys())
def test_the_same_seed_gives_the_same_bits_and_leaves_the_global_generator_alone(
    architecture: AbstractArchitecture,
) -> None:
    before = torch.get_rng_state()
    first, again, other = (start(architecture, seed) for seed in (5, 5, 6))
    size(architecture)
    assert torch.equal(torch.get_rng_state(), before)
    torch.rand(3)  # whatever was drawn in between
    assert np.array_equal(first, again)
    assert np.array_equal(first, start(architecture, 5))
    assert not np.array_equal(first, other)
    assert first.dtype == np.float64


def test_weights_made_in_several_threads_at_once_are_those_of_their_seeds() -> None:
    """Layer by layer another thread could draw in between; here it would get the chance."""

    def slowly() -> nn.Module:
        first = nn.Linear(3, 4)
        sleep(0.002)
        return nn.Sequential(first, nn.Linear(4, 1))

    own = OwnModule("slow", "table", slowly)
    seeds = [1, 2, 3, 4] * 3
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda seed: start(own, seed), seeds))
    for seed, theta in zip(seeds, found, strict=True):
        assert np.array_equal(theta, start(own, seed))


@pytest.mark.parametrize("architecture", ARCHITECTURES.values(), ids=ARCHITECTURES.keys())
def test_weights_come_back_from_the_module_as_they_went_in(
    architecture: AbstractArchitecture,
) -> None:
    module = build(architecture).double()
    theta = np.random.default_rng(0).normal(size=size(architecture))
    assign(module, theta)
    assert np.array_equal(flatten(own for _, own in trainable(module)), theta)
    named = dict(split(architecture, theta))
    for name, parameter in module.named_parameters():
        assert np.array_equal(named[name], parameter.detach().numpy())


def test_the_papers_model_has_its_weights_in_this_order_and_no_last_bias() -> None:
    assert pieces(TileScorer()) == (
        ("hidden.weight", (128, 256)),
        ("hidden.bias", (128,)),
        ("score.weight", (1, 128)),
    )
    assert size(TileScorer()) == 33_024


def test_frozen_parts_are_no_part_of_the_weights() -> None:
    def frozen() -> nn.Module:
        module = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 1))
        module[0].requires_grad_(False)
        return module

    assert size(OwnModule("frozen", "table", frozen)) == 3


def test_weights_that_do_not_fit_are_refused() -> None:
    with pytest.raises(WeightsError, match="has 33024 weights"):
        assign(build(TileScorer()), np.zeros(5))
    with pytest.raises(WeightsError):
        split(TileScorer(), np.zeros((128, 258)))
