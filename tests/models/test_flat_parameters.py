"""θ: seeded, in the module's order, and without a trace in torch's own generator."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from time import sleep

import numpy as np
import pytest
import torch
from torch import nn

from fedcox.errors import WeightsError
from fedcox.models.architecture import AbstractArchitecture, OwnModule, TileScorer
from fedcox.models.modules import (
    assign,
    build,
    flatten,
    pieces,
    size,
    split,
    start,
    trainable,
)
from tests.models.network_examples import ARCHITECTURES


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
