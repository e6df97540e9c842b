"""Modules whose score would depend on who else is there, or on chance, are refused."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import pytest
from torch import Tensor, nn

from fedcox.errors import WeightsError
from fedcox.models.architecture import OwnModule
from fedcox.models.modules import build, check_module, start
from fedcox.models.neural import NeuralModel
from tests.models.network_examples import COLUMNS, GRID, patients_with_slides


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
