"""Where do a few steps of a center's own lead from here? The question of federated averaging.

Each center follows the loss of its own patients. The mean of where they end, weighted by
patients, is near the pooled optimum where centers are alike, and somewhere else where they are
not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedcox.federation.query import AbstractAdditiveQuery, Agreed
from fedcox.federation.setting import Setting
from fedcox.federation.sums import FieldSum, Shapes
from fedcox.survival.bounds import (
    MOST_DRAWN,
    MOST_ROUNDS,
    MOST_STEPS,
    between,
    not_negative,
    patients_counted,
    positive,
    shaped,
)
from fedcox.survival.cohort import Cohort, FloatArray
from fedcox.survival.derivatives import Derivatives, Detail
from fedcox.survival.descent import DESCENTS, DescentName


@dataclass(frozen=True, eq=False)
class LocalEnds(FieldSum):
    """Where centers ended, each times its patients; the mean is taken by the coordinator.

    `loss` is summed over their patients, at the parameters they started from.
    """

    patients: int
    loss: float
    alpha: FloatArray  # (intervals,)
    beta: FloatArray  # (columns,)

    def faults(self, columns: int | None) -> Iterator[str]:
        yield from patients_counted(self.patients)


@dataclass(frozen=True, eq=False)
class LocalTraining(Agreed):
    """How centers train between two rounds; every center gets it once.

    `ridge` is the penalty per patient of the study, (columns,). `scale` says how far a unit of
    slope moves each parameter, (intervals + columns,). With `cells` a step looks at that many
    of the center's own stacked rows, drawn by `seed` with replacement; without it, at all of
    its patients.
    """

    setting: Setting
    ridge: FloatArray
    scale: FloatArray
    descent: DescentName
    steps: int
    cells: int | None = None
    seed: int = 0
    setting_sent: bool = False

    @property
    def timing(self) -> Setting:
        return self.setting

    @property
    def numbers(self) -> int:
        """How many numbers describe it; the setting, unless an earlier question brought it."""
        setting = 0 if self.setting_sent else self.setting.numbers
        return setting + self.ridge.size + self.scale.size + 4

    def faults(self, columns: int | None) -> Iterator[str]:
        """Penalties by column and steps by parameter, in numbers that end some day."""
        intervals, kept = self.setting.baseline_size, self.setting.columns
        yield from shaped("ridge", self.ridge, (kept,), "one for each column kept")
        yield from not_negative("ridge", self.ridge)
        yield from shaped("scale", self.scale, (intervals + kept,), "one for each parameter")
        yield from between("steps", self.steps, 1, MOST_STEPS)
        yield from between("cells", self.cells, 1, MOST_DRAWN)
        yield from not_negative("seed", self.seed)


@dataclass(frozen=True, eq=False)
class LocalSteps(AbstractAdditiveQuery[LocalEnds]):
    """A center's own steps down its mean loss, penalty included, from common parameters.

    Not a sum over patients: the steps of a union are not those of its parts, so no engine may
    join centers to answer this.
    """

    words: ClassVar = {"local steps": "where a few steps on the center's own patients lead"}

    training: LocalTraining
    alpha: FloatArray
    beta: FloatArray
    learning_rate: float
    round: int

    @property
    def numbers(self) -> int:
        return self.alpha.size + self.beta.size + 2

    @property
    def setting(self) -> LocalTraining:
        return self.training

    @property
    def point(self) -> tuple[FloatArray, FloatArray]:
        return self.alpha, self.beta

    def faults(self, columns: int | None) -> Iterator[str]:
        """The point is one of the setting's that centers train on."""
        yield from self.training.setting.point_faults(self.alpha, self.beta)
        yield from positive("learning_rate", self.learning_rate)
        yield from between("round", self.round, 0, MOST_ROUNDS)

    def shapes(self, columns: int | None) -> Shapes:
        return {"alpha": self.alpha.shape, "beta": self.beta.shape}

    def answer(self, cohort: Cohort) -> LocalEnds:
        training, intervals, patients = self.training, self.alpha.size, cohort.patients
        if not patients:
            return LocalEnds(0, 0.0, np.zeros(intervals), np.zeros(self.beta.size))
        gradients = _Gradients(training, cohort, self.round)
        point = np.concatenate([self.alpha, self.beta])
        descent = DESCENTS[training.descent](point.size)
        loss = np.nan
        for step in range(training.steps):
            alpha, beta = point[:intervals], point[intervals:]
            summed = gradients.at(alpha, beta)
            loss = summed.loss if step == 0 else loss
            gradient = np.concatenate([summed.alpha, summed.beta]) / patients
            gradient[intervals:] += training.ridge * beta
            gradient *= training.scale
            descent.step(point, gradient, self.learning_rate)
        point *= patients
        return LocalEnds(patients, loss, point[:intervals], point[intervals:])


class _Gradients:
    """Loss and gradient summed over a center's patients, or an estimate of that from cells."""

    def __init__(self, training: LocalTraining, cohort: Cohort, number: int) -> None:
        self._training, self._cohort = training, cohort
        # Centers draw apart from each other: the smallest number is one center's alone.
        entropy = training.seed, number, int(cohort.number.min())
        self._rng = np.random.default_rng(entropy)

    def at(self, alpha: FloatArray, beta: FloatArray) -> Derivatives:
        setting, size = self._training.setting, self._training.cells
        if size is None:
            prepared = setting.prepared(self._cohort)
            return prepared.derivatives(setting.link, alpha, beta, Detail.GRADIENT)
        cells = setting.cells(self._cohort)
        drawn = cells.gradient(setting.link, cells.draw(size, self._rng), alpha, beta)
        scale = cells.total / size
        return Derivatives(scale * drawn.loss, scale * drawn.alpha, scale * drawn.beta, None)
