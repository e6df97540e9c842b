"""Where does a center's own training of a network lead? Federated averaging asks this.

Each center follows the loss of its own patients. The mean of where they end, weighted by
patients, is the next start.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedcox.federation.batch import HeldOut
from fedcox.federation.network_setting import NetworkSetting
from fedcox.federation.query import AbstractAdditiveQuery, Agreed
from fedcox.federation.setting import Setting
from fedcox.federation.sums import FieldSum, Shapes
from fedcox.survival.bounds import (
    MOST_ORDERED,
    MOST_ROUNDS,
    MOST_STEPS,
    between,
    not_negative,
    patients_counted,
    positive,
)
from fedcox.survival.cohort import Cohort, FloatArray, IntArray
from fedcox.survival.descent import DESCENTS, DescentName


@dataclass(frozen=True, eq=False)
class NetworkEnds(FieldSum):
    """Where centers ended, each times its patients; the mean is taken by the coordinator.

    `loss` is summed over their patients, each as the first pass over them came to it.
    """

    patients: int
    loss: float
    theta: FloatArray  # (parameters of the network,)
    alpha: FloatArray  # (intervals,)

    def faults(self, columns: int | None) -> Iterator[str]:
        yield from patients_counted(self.patients)


@dataclass(frozen=True, eq=False)
class NetworkTraining(Agreed):
    """How centers train between two rounds; every center gets it once.

    A step looks at `batch_size` of the center's own patients, drawn by `seed`, each once in an
    epoch; without it, at all of them. Patients in `left_out` are not trained on.
    """

    setting: NetworkSetting
    descent: DescentName
    epochs: int
    batch_size: int | None = None
    left_out: HeldOut | None = None
    seed: int = 0

    @property
    def timing(self) -> Setting:
        return self.setting.timing

    @property
    def numbers(self) -> int:
        """How many numbers describe it."""
        return self.setting.numbers + 7

    def faults(self, columns: int | None) -> Iterator[str]:
        """Epochs that end some day."""
        yield from between("epochs", self.epochs, 1, MOST_STEPS)
        yield from between("batch_size", self.batch_size, 1, MOST_ORDERED)
        yield from not_negative("seed", self.seed)


@dataclass(frozen=True, eq=False)
class NetworkSteps(AbstractAdditiveQuery[NetworkEnds]):
    """A center's own epochs down its mean loss, from common parameters.

    Not a sum over patients: the steps of a union are not those of its parts, so no engine may
    join centers to answer this.
    """

    words: ClassVar = {
        "network steps": "where training the network on the center's own patients leads"
    }

    training: NetworkTraining
    theta: FloatArray
    alpha: FloatArray
    learning_rate: float
    round: int

    @property
    def numbers(self) -> int:
        return self.theta.size + self.alpha.size + 2

    @property
    def setting(self) -> NetworkTraining:
        return self.training

    @property
    def batched(self) -> bool:
        return self.training.left_out is not None

    def faults(self, columns: int | None) -> Iterator[str]:
        """The point is one of the setting's that centers train on."""
        yield from self.training.setting.point_faults(self.theta, self.alpha)
        yield from positive("learning_rate", self.learning_rate)
        yield from between("round", self.round, 0, MOST_ROUNDS)

    def shapes(self, columns: int | None) -> Shapes:
        return {"theta": self.theta.shape, "alpha": self.alpha.shape}

    def answer(self, cohort: Cohort) -> NetworkEnds:
        training, setting = self.training, self.training.setting
        rows, size = _rows(training, cohort), self.theta.size
        if not rows.size:
            return NetworkEnds(0, 0.0, np.zeros(size), np.zeros(self.alpha.size))
        patients, model = setting.laid_out(cohort), setting.model
        point = np.concatenate([self.theta, self.alpha])
        gradient = np.empty_like(point)
        descent = DESCENTS[training.descent](point.size)
        loss = 0.0
        for epoch, batch in self._batches(cohort, rows):
            summed = model.gradient(point[:size], point[size:], patients, batch)
            loss += summed.loss if epoch == 0 else 0.0
            gradient[:size], gradient[size:] = summed.theta, summed.alpha
            gradient /= batch.size
            descent.step(point, gradient, self.learning_rate)
        point *= rows.size
        return NetworkEnds(int(rows.size), loss, point[:size], point[size:])

    def _batches(self, cohort: Cohort, rows: IntArray) -> Iterator[tuple[int, IntArray]]:
        training = self.training
        size = rows.size if training.batch_size is None else training.batch_size
        # Centers draw apart from each other: the smallest number is one center's alone.
        first = int(cohort.number.min())
        for epoch in range(training.epochs):
            rng = np.random.default_rng((training.seed, self.round, epoch, first))
            order = rows if size >= rows.size else rng.permutation(rows)
            for start in range(0, rows.size, size):
                yield epoch, order[start : start + size]


def _rows(training: NetworkTraining, cohort: Cohort) -> IntArray:
    """Rows that are trained on, in the order of study numbers, which is everyone's."""
    numbers = np.sort(cohort.number)
    if training.left_out is not None:
        numbers = numbers[~np.isin(numbers, training.left_out.numbers())]
    return training.setting.rows(cohort, numbers)
