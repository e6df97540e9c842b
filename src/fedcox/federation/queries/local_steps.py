"""Where do a few steps of a center's own lead from here? The question of federated averaging.

Each center follows the loss of its own patients. The mean of where they end, weighted by
patients, is near the pooled optimum where centers are alike, and somewhere else where they are
not.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedcox.federation.query import AbstractAdditiveQuery
from fedcox.federation.setting import Setting
from fedcox.survival.cohort import Cohort, FloatArray
from fedcox.survival.derivatives import Derivatives, Detail
from fedcox.survival.descent import DESCENTS, DescentName


@dataclass(frozen=True, eq=False)
class LocalEnds:
    """Where centers ended, each times its patients; the mean is taken by the coordinator.

    `loss` is summed over their patients, at the parameters they started from.
    """

    patients: int
    loss: float
    alpha: FloatArray  # (intervals,)
    beta: FloatArray  # (columns,)

    def __add__(self, other: LocalEnds) -> LocalEnds:
        return LocalEnds(
            self.patients + other.patients,
            self.loss + other.loss,
            self.alpha + other.alpha,
            self.beta + other.beta,
        )


@dataclass(frozen=True, eq=False)
class LocalTraining:
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


@dataclass(frozen=True, eq=False)
class LocalSteps(AbstractAdditiveQuery[LocalEnds]):
    """A center's own steps down its mean loss, penalty included, from common parameters.

    Not a sum over patients: the steps of a union are not those of its parts, so no engine may
    join centers to answer this.
    """

    training: LocalTraining
    alpha: FloatArray
    beta: FloatArray
    learning_rate: float
    round: int

    @property
    def name(self) -> str:
        return "local steps"

    @property
    def numbers(self) -> int:
        return self.alpha.size + self.beta.size + 2

    @property
    def setting(self) -> LocalTraining:
        return self.training

    @property
    def point(self) -> tuple[FloatArray, FloatArray]:
        return self.alpha, self.beta

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

    def pack(self, answer: LocalEnds) -> FloatArray:
        return np.concatenate([[answer.patients], [answer.loss], answer.alpha, answer.beta])

    def unpack(self, vector: FloatArray) -> LocalEnds:
        ends = 2 + self.alpha.size
        return LocalEnds(round(vector[0]), float(vector[1]), vector[2:ends], vector[ends:])


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
