"""Where does a center's own training lead from here? The question of federated averaging.

Each center follows the loss of its own patients. The mean of where they end, weighted by
patients, is near the pooled optimum where centers are alike, and somewhere else where they are
not.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from fedcox.federation.batch import HeldOut
from fedcox.federation.query import AbstractAdditiveQuery, Agreed
from fedcox.federation.setting import Setting
from fedcox.federation.sums import FieldSum, Shapes
from fedcox.models.predictors import words_by_predictor
from fedcox.survival.bounds import (
    MOST_DRAWN,
    MOST_ORDERED,
    MOST_ROUNDS,
    MOST_STEPS,
    between,
    not_negative,
    patients_counted,
    positive,
    shaped,
)
from fedcox.survival.cohort import Cohort, FloatArray, IntArray
from fedcox.survival.derivatives import Derivatives, Detail
from fedcox.survival.descent import DESCENTS, DescentName
from fedcox.survival.link import AbstractLink
from fedcox.survival.person_periods import CellChoice


@dataclass(frozen=True, eq=False)
class LocalEnds(FieldSum):
    """Where centers ended, each times its patients; the mean is taken by the coordinator.

    `loss` is summed over their patients, each as the first look at them gave it.
    """

    patients: int
    loss: float
    alpha: FloatArray  # (intervals,)
    beta: FloatArray  # (parameters of the predictor,)

    def faults(self, columns: int | None) -> Iterator[str]:
        yield from patients_counted(self.patients)


class Look(Protocol):
    """What one local step looks at."""

    def derivatives(
        self, link: AbstractLink, alpha: FloatArray, beta: FloatArray, detail: Detail
    ) -> Derivatives:
        """Loss and gradient at (α, β), summed over the patients that it stands for."""
        ...


class AbstractLocalPlan(ABC):
    """How many steps a center takes by itself, and whom each of them looks at."""

    left_out: HeldOut | None = None

    @property
    @abstractmethod
    def numbers(self) -> int:
        """How many numbers describe it, and the training but for its arrays."""

    def trained(self, cohort: Cohort) -> IntArray:
        """Study numbers of those who are trained on, in order, which is everyone's."""
        numbers = np.sort(cohort.number)
        if self.left_out is not None:
            numbers = numbers[~np.isin(numbers, self.left_out.numbers())]
        return numbers

    @abstractmethod
    def looks(
        self, setting: Setting, cohort: Cohort, entropy: tuple[int, ...]
    ) -> Iterator[tuple[Look, int, bool]]:
        """What each step looks at, how many patients that stands for, whether it is the first.

        Centers draw apart from each other: by `entropy` and by their smallest study number,
        which is one center's alone.
        """


@dataclass(frozen=True)
class LocalLooks(AbstractLocalPlan):
    """`steps` steps over all own patients, or over `cells` own stacked rows drawn for each.

    They are drawn with replacement, and stand for all patients.
    """

    steps: int
    cells: int | None = None

    @property
    def numbers(self) -> int:
        return 4

    def faults(self, columns: int | None) -> Iterator[str]:
        """Steps that end some day."""
        yield from between("steps", self.steps, 1, MOST_STEPS)
        yield from between("cells", self.cells, 1, MOST_DRAWN)

    def looks(
        self, setting: Setting, cohort: Cohort, entropy: tuple[int, ...]
    ) -> Iterator[tuple[Look, int, bool]]:
        rng = np.random.default_rng((*entropy, int(cohort.number.min())))
        for step in range(self.steps):
            look: Look = setting.prepared(cohort)
            if self.cells is not None:
                cells = setting.cells(cohort)
                drawn, scale = cells.draw(self.cells, rng), cells.total / self.cells
                look = _DrawnCells(setting, cohort, drawn, scale)
            yield look, cohort.patients, step == 0


@dataclass(frozen=True, eq=False)
class _DrawnCells:
    """Single cells of a cohort, each of which stands for `scale` of them."""

    setting: Setting
    cohort: Cohort
    cells: CellChoice
    scale: float

    def derivatives(
        self, link: AbstractLink, alpha: FloatArray, beta: FloatArray, detail: Detail
    ) -> Derivatives:
        predictor, scale = self.setting.predictor, self.scale
        sums = predictor.cell_gradient(self.cohort, self.setting, self.cells, alpha, beta)
        return Derivatives(scale * sums.loss, scale * sums.alpha, scale * sums.beta, None)


@dataclass(frozen=True)
class LocalEpochs(AbstractLocalPlan):
    """`epochs` passes over the own patients, `batch_size` a step, each once in an epoch.

    Without a size all are one batch. Patients in `left_out` are not trained on.
    """

    epochs: int
    batch_size: int | None = None
    left_out: HeldOut | None = None

    @property
    def numbers(self) -> int:
        return 7

    def faults(self, columns: int | None) -> Iterator[str]:
        """Epochs that end some day."""
        yield from between("epochs", self.epochs, 1, MOST_STEPS)
        yield from between("batch_size", self.batch_size, 1, MOST_ORDERED)

    def looks(
        self, setting: Setting, cohort: Cohort, entropy: tuple[int, ...]
    ) -> Iterator[tuple[Look, int, bool]]:
        numbers, prepared = self.trained(cohort), setting.prepared(cohort)
        size = numbers.size if self.batch_size is None else self.batch_size
        smallest = int(cohort.number.min())
        for epoch in range(self.epochs):
            rng = np.random.default_rng((*entropy, epoch, smallest))
            order = numbers if size >= numbers.size else rng.permutation(numbers)
            for start in range(0, numbers.size, size):
                batch = order[start : start + size]
                yield prepared.draw(batch), batch.size, epoch == 0


@dataclass(frozen=True, eq=False)
class LocalTraining(Agreed):
    """How centers train between two rounds; every center gets it once.

    `ridge` is the penalty per patient of the study, (parameters,); `scale` says how far a unit
    of slope moves each parameter, (intervals + parameters,). None stands for no penalty, and
    for as far as the slope is long. What is drawn is drawn by `seed`.
    """

    setting: Setting
    descent: DescentName
    plan: LocalLooks | LocalEpochs
    ridge: FloatArray | None = None
    scale: FloatArray | None = None
    seed: int = 0
    setting_sent: bool = False

    @property
    def numbers(self) -> int:
        """How many numbers describe it; the setting, unless an earlier question brought it."""
        setting = 0 if self.setting_sent else self.setting.numbers
        arrays = sum(part.size for part in (self.ridge, self.scale) if part is not None)
        return setting + arrays + self.plan.numbers

    def faults(self, columns: int | None) -> Iterator[str]:
        """Penalties and steps by parameter."""
        intervals, size = self.setting.baseline_size, self.setting.parameters
        yield from shaped("ridge", self.ridge, (size,), self.setting.predictor.one_for_each)
        yield from not_negative("ridge", self.ridge)
        yield from shaped("scale", self.scale, (intervals + size,), "one for each parameter")
        yield from not_negative("seed", self.seed)


@dataclass(frozen=True, eq=False)
class LocalSteps(AbstractAdditiveQuery[LocalEnds]):
    """A center's own steps down its mean loss, penalty included, from common parameters.

    Not a sum over patients: the steps of a union are not those of its parts, so no engine may
    join centers to answer this.
    """

    words: ClassVar = {
        "local steps": "where a few steps on the center's own patients lead",
        **words_by_predictor("steps"),
    }

    training: LocalTraining
    alpha: FloatArray
    beta: FloatArray
    learning_rate: float
    round: int

    @property
    def name(self) -> str:
        return f"{self.training.setting.predictor.prefix or 'local '}steps"

    @property
    def numbers(self) -> int:
        return self.alpha.size + self.beta.size + 2

    @property
    def setting(self) -> LocalTraining:
        return self.training

    @property
    def point(self) -> tuple[FloatArray, FloatArray]:
        return self.alpha, self.beta

    @property
    def batched(self) -> bool:
        return self.training.plan.left_out is not None

    def faults(self, columns: int | None) -> Iterator[str]:
        """The point is one of the setting's that centers train on."""
        yield from self.training.setting.point_faults(self.alpha, self.beta)
        yield from positive("learning_rate", self.learning_rate)
        yield from between("round", self.round, 0, MOST_ROUNDS)

    def shapes(self, columns: int | None) -> Shapes:
        return {"alpha": self.alpha.shape, "beta": self.beta.shape}

    def answer(self, cohort: Cohort) -> LocalEnds:
        training, intervals = self.training, self.alpha.size
        patients = int(training.plan.trained(cohort).size)
        if not patients:
            return LocalEnds(0, 0.0, np.zeros(intervals), np.zeros(self.beta.size))
        point = np.concatenate([self.alpha, self.beta])
        descent = DESCENTS[training.descent](point.size)
        loss = 0.0
        entropy = training.seed, self.round
        link = training.setting.link
        for look, size, first in training.plan.looks(training.setting, cohort, entropy):
            alpha, beta = point[:intervals], point[intervals:]
            summed = look.derivatives(link, alpha, beta, Detail.GRADIENT)
            loss += summed.loss if first else 0.0
            gradient = np.concatenate([summed.alpha, summed.beta]) / size
            if training.ridge is not None:
                gradient[intervals:] += training.ridge * beta
            if training.scale is not None:
                gradient *= training.scale
            descent.step(point, gradient, self.learning_rate)
        point *= patients
        return LocalEnds(patients, loss, point[:intervals], point[intervals:])
