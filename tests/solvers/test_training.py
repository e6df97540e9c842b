"""A training ends where held-out patients gain nothing, and goes on after a crash."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

from fedcox.federation.query import Federation
from fedcox.solvers.solver import Patients, Point, Problem
from fedcox.solvers.training import (
    AbstractTraining,
    EpochLoss,
    Epochs,
    TrainingState,
    TrainingStep,
    Walk,
    best_epoch,
)
from fedcox.survival.derivatives import Derivatives, Detail
from fedcox.survival.descent import GradientDescent

#: Held-out losses by epoch: the third is the best, and the two after it gain nothing.
LOSSES = {1: 5.0, 2: 4.0, 3: 3.0, 4: 3.5, 5: 3.2, 6: 1.0}


def unasked(
    federation: Federation, at: Point, detail: Detail, batch: Patients = None
) -> Derivatives:
    raise NotImplementedError


class Counting(AbstractTraining):
    """β counts the epochs that were trained; α does not move."""

    def __init__(self) -> None:
        one = np.zeros(1)
        problem = Problem(unasked, one, one, one, patients=1, events=1.0)
        super().__init__(Walk(problem, GradientDescent))

    def train(self, epoch: int) -> float:
        self.walk.vector[1] += 1.0
        assert self.point.beta == epoch
        return 10.0 / epoch


@dataclass
class Kept:
    """A checkpoint in memory that crashes once so many epochs were saved."""

    crash_after: int | None = None
    saved: list[TrainingState] = field(default_factory=list)

    def load(self) -> TrainingState | None:
        return self.saved[-1] if self.saved else None

    def save(self, state: TrainingState) -> None:
        self.saved.append(state)
        if len(self.saved) == self.crash_after:
            raise KeyboardInterrupt


def held_out_loss(point: Point) -> float:
    return LOSSES[int(point.beta[0])]


def unwatched(step: TrainingStep | EpochLoss) -> None:
    pass


def epochs(*, most: int = 6, patience: int | None = 2) -> Epochs:
    return Epochs(most, patience, held_out_loss)


def test_it_ends_where_held_out_patients_gain_nothing_and_gives_the_best() -> None:
    told: list[TrainingStep | EpochLoss] = []
    found = epochs().of(Counting(), told.append, None)
    assert [epoch.validation for epoch in found.epochs] == [5.0, 4.0, 3.0, 3.5, 3.2]
    assert [epoch.loss for epoch in found.epochs] == [10.0 / number for number in range(1, 6)]
    assert (found.best, found.beta.tolist()) == (3, [3.0])
    assert told == list(found.epochs)


@pytest.mark.parametrize("scale", [1e-3, 1e6])
def test_a_gain_of_less_than_a_millionth_of_the_loss_is_rounding(scale: float) -> None:
    losses = [2.0, 1.0, 1.0 - 0.9e-6, 1.0 - 1.1e-6]
    told = [EpochLoss(k + 1, 0.0, scale * loss) for k, loss in enumerate(losses)]
    assert best_epoch(told[:3]) == 2
    assert best_epoch(told) == 4


def test_without_patience_all_epochs_are_trained() -> None:
    found = epochs(patience=None).of(Counting(), unwatched, None)
    assert (len(found.epochs), found.best, found.beta.tolist()) == (6, 6, [6.0])


def test_without_held_out_patients_the_last_epoch_is_the_best() -> None:
    found = Epochs(4, 1, lambda point: None).of(Counting(), unwatched, None)
    assert (len(found.epochs), found.best, found.beta.tolist()) == (4, 4, [4.0])


@pytest.mark.parametrize("crash_after", [1, 2, 3, 4, 5])
def test_after_a_crash_it_goes_on_from_the_last_whole_epoch(crash_after: int) -> None:
    whole = epochs().of(Counting(), unwatched, None)
    kept = Kept(crash_after)
    with pytest.raises(KeyboardInterrupt):
        epochs().of(Counting(), unwatched, kept)
    kept.crash_after = None
    told: list[TrainingStep | EpochLoss] = []
    found = epochs().of(Counting(), told.append, kept)
    assert found.epochs == whole.epochs
    assert (found.best, found.beta.tolist()) == (whole.best, whole.beta.tolist())
    assert told == list(whole.epochs[crash_after:])
    assert [len(state.epochs) for state in kept.saved] == [1, 2, 3, 4, 5]
