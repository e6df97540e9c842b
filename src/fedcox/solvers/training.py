"""What a training is: it follows gradients as long as planned, or as held-out patients gain.

A search for the optimum (`solver.py`) asks how far it still is, and ends with the information
there. A training asks neither; so it is what a network has, which has no curvature.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from numbers import Integral, Real
from typing import ClassVar, Protocol

import numpy as np

from fedcox.data.wording import listed
from fedcox.errors import InputError
from fedcox.federation.batch import HeldOut
from fedcox.federation.queries.network_loss import NetworkLossAt
from fedcox.federation.query import Federation
from fedcox.federation.setting import Setting
from fedcox.solvers.losses import setting_of
from fedcox.solvers.solver import Point, Problem
from fedcox.survival.cohort import FloatArray
from fedcox.survival.derivatives import Derivatives
from fedcox.survival.descent import AbstractDescent

#: The part of the run, at its end, over which the learning rate falls to zero.
_DECAY = 0.5
#: A smaller gain, in parts of the loss, is rounding, which differs between splits of patients.
_GAIN = 1e-6


@dataclass(frozen=True)
class TrainingStep:
    """One step of training: `step` of `steps` in `epoch`, all counted from one.

    `loss` is per patient, of those the step looked at. NaN where asking for it would cost.
    """

    epoch: int
    step: int
    steps: int
    loss: float


@dataclass(frozen=True)
class EpochLoss:
    """Loss per patient over an epoch, or a round of averaging, and on held-out patients."""

    epoch: int
    loss: float
    validation: float | None = None


TrainingWatcher = Callable[[TrainingStep | EpochLoss], None]


@dataclass(frozen=True, eq=False)
class TrainingEnd:
    """Where training ended, or where it did best on held-out patients."""

    alpha: FloatArray
    beta: FloatArray
    epochs: tuple[EpochLoss, ...]
    best: int  # the epoch whose end this is


@dataclass(frozen=True, eq=False)
class TrainingState:
    """All that the rest of a training depends on, after some whole epochs or rounds."""

    arrays: Mapping[str, FloatArray]
    epochs: tuple[EpochLoss, ...]


class Checkpoint(Protocol):
    """Where a training is kept, so that it goes on after a crash with the same bits."""

    def load(self) -> TrainingState | None:
        """What was saved last; None where nothing was."""
        ...

    def save(self, state: TrainingState) -> None:
        """Keep this instead, whole."""
        ...


class AbstractTrainer(ABC):
    """Trains a predictor by asking a federation."""

    @abstractmethod
    def train(
        self,
        federation: Federation,
        problem: Problem,
        watch: TrainingWatcher = lambda step: None,
        checkpoint: Checkpoint | None = None,
    ) -> TrainingEnd:
        """Train to the end, from the problem's start or from where the checkpoint is."""


class Walk:
    """A point on its way down the mean loss, penalty included.

    The mean is per patient, or per whatever there are `total` of.
    """

    def __init__(
        self, problem: Problem, descent: type[AbstractDescent], total: float | None = None
    ) -> None:
        self._intervals = problem.alpha.size
        self.vector = np.concatenate([problem.alpha, problem.beta])
        self.gradient = np.empty_like(self.vector)
        self.descent = descent(self.vector.size)
        self._ridge = problem.ridge / (problem.patients if total is None else total)
        self._penalised = bool(problem.ridge.any())

    @property
    def point(self) -> Point:
        """Where it is now, in copies: later steps do not change them."""
        return self.at(self.vector)

    def at(self, vector: FloatArray) -> Point:
        """The parts of such a vector, in copies."""
        copied = vector.copy()
        return Point(copied[: self._intervals], copied[self._intervals :])

    def look(self, summed: Derivatives, size: float) -> float:
        """Take in sums that stand for so many patients or cells; gives the mean loss."""
        intervals = self._intervals
        np.divide(summed.alpha, size, out=self.gradient[:intervals])
        np.divide(summed.beta, size, out=self.gradient[intervals:])
        loss = summed.loss / size
        if not self._penalised:
            return loss
        beta = self.vector[intervals:]
        self.gradient[intervals:] += self._ridge * beta
        return loss + 0.5 * float(self._ridge @ beta**2)

    def step(self, rate: float) -> None:
        """Against the gradient that was taken in last."""
        self.descent.step(self.vector, self.gradient, rate)


def decayed(rate: float, number: int, steps: int) -> float:
    """The learning rate of step `number` = 1 … `steps`: constant, then falling to zero.

    Ever smaller steps come to rest where even ones hover.
    """
    left = (steps - number + 1) / (_DECAY * steps)
    return rate * min(1.0, left)


def held_out(share: float, problem: Problem) -> HeldOut | None:
    """The patients that training does not look at; None where there are to be none."""
    if share == 0.0:
        return None
    if problem.patients < 2:
        raise InputError(
            f"There are {problem.patients} patient(s), and some are to be held out.",
            ["Train without validation, or on more patients."],
        )
    return HeldOut(problem.seed, share, problem.patients)


def validation_loss(
    federation: Federation, setting: Setting, held: HeldOut | None, point: Point
) -> float | None:
    """Loss per held-out patient at (α, β): one round; None without such patients."""
    if held is None:
        return None
    sums = federation.ask(NetworkLossAt(setting, *point, held))
    return sums.loss / sums.patients if sums.patients else math.nan


def check_finite(total: float, epoch: int) -> None:
    """Refuse to go on where loss and gradient, or parameters, added up, are no number."""
    if not math.isfinite(total):
        raise InputError(
            f"The training left all bounds in epoch {epoch}: loss or gradient is no number.",
            ["Take a smaller learning_rate, or look for features that are far too large."],
        )


class AbstractTraining(ABC):
    """A training under way: a walk, and the best point so far."""

    def __init__(self, walk: Walk) -> None:
        self.walk = walk
        self._best = walk.vector.copy()

    @abstractmethod
    def train(self, epoch: int) -> float:
        """Go on for one epoch, or one round; gives the loss per patient over it."""

    @property
    def point(self) -> Point:
        """α and β as they are now; later epochs do not change them."""
        return self.walk.point

    def keep(self) -> None:
        """Remember this point as the best so far."""
        self._best[:] = self.walk.vector

    @property
    def best(self) -> Point:
        """The point that was kept last; the start, where none was."""
        return self.walk.at(self._best)

    @property
    def arrays(self) -> dict[str, FloatArray]:
        """All that the rest of the training depends on, as it is saved."""
        point, memory = self.walk.vector.copy(), self.walk.descent.memory
        return {"point": point, "best": self._best.copy(), **memory}

    def resume(self, arrays: Mapping[str, FloatArray]) -> None:
        """Go back to where a training was whose `arrays` these are."""
        self.walk.vector[:], self._best[:] = arrays["point"], arrays["best"]
        self.walk.descent.resume(arrays)


class AbstractEpochTrainer(AbstractTrainer):
    """Goes through the patients epoch by epoch, or round by round, and keeps the best of them.

    A share `validation` of the patients is never trained on; after every epoch the loss on them
    is asked for, and training ends when the last `patience` epochs gained nothing.
    """

    #: What an error calls it.
    what: ClassVar[str]
    validation: float
    patience: int | None

    @property
    @abstractmethod
    def most(self) -> int:
        """Epochs, or rounds."""

    @abstractmethod
    def begin(
        self,
        federation: Federation,
        problem: Problem,
        setting: Setting,
        held: HeldOut | None,
        watch: TrainingWatcher,
    ) -> AbstractTraining:
        """The training before its first epoch."""

    def train(
        self,
        federation: Federation,
        problem: Problem,
        watch: TrainingWatcher = lambda step: None,
        checkpoint: Checkpoint | None = None,
    ) -> TrainingEnd:
        setting = setting_of(problem, self.what)
        held = held_out(self.validation, problem)
        training = self.begin(federation, problem, setting, held, watch)
        validate = partial(validation_loss, federation, setting, held)
        return Epochs(self.most, self.patience, validate).of(training, watch, checkpoint)


@dataclass(frozen=True)
class Epochs:
    """At most `most` of them; fewer where the last `patience` gained nothing.

    `validate` gives the loss on held-out patients at a point, None where there are none.
    """

    most: int
    patience: int | None
    validate: Callable[[Point], float | None]

    def of(
        self,
        training: AbstractTraining,
        watch: TrainingWatcher,
        checkpoint: Checkpoint | None,
    ) -> TrainingEnd:
        """Train to the end, from where the training is or from where the checkpoint is."""
        epochs: tuple[EpochLoss, ...] = ()
        kept = None if checkpoint is None else checkpoint.load()
        if kept is not None:
            _check_arrays(kept.arrays, training.arrays)
            training.resume(kept.arrays)
            epochs = kept.epochs
        while not is_over(epochs, self.most, self.patience):
            number = len(epochs) + 1
            loss = training.train(number)
            epochs = (*epochs, EpochLoss(number, loss, self.validate(training.point)))
            if best_epoch(epochs) == number:
                training.keep()
            watch(epochs[-1])
            if checkpoint is not None:
                checkpoint.save(TrainingState(training.arrays, epochs))
        return TrainingEnd(*training.best, epochs, best_epoch(epochs))


def _check_arrays(kept: Mapping[str, FloatArray], wanted: Mapping[str, FloatArray]) -> None:
    """InputError where a checkpoint does not hold what this training would save."""
    shapes, needed = (
        {name: array.shape for name, array in arrays.items()} for arrays in (kept, wanted)
    )
    if shapes != needed:
        differing = sorted({name for name, _ in shapes.items() ^ needed.items()})
        raise InputError(
            "The checkpoint does not hold the training that goes on.",
            [
                f"Missing, of another size or not known: {listed(differing)}.",
                "Name another file to begin anew.",
            ],
        )


def best_epoch(epochs: Sequence[EpochLoss]) -> int:
    """The epoch with the least loss on held-out patients; the last one without any."""
    best, least = 0, math.inf
    for epoch in epochs:
        if epoch.validation is None:
            best = epoch.epoch
        elif best == 0 or _gains(epoch.validation, least):
            best, least = epoch.epoch, epoch.validation
    return best


def _gains(loss: float, least: float) -> bool:
    """Whether a loss is less; any number is less than none."""
    if not math.isfinite(least):
        return math.isfinite(loss)
    return least - loss > _GAIN * abs(least)


def is_over(epochs: Sequence[EpochLoss], most: int, patience: int | None) -> bool:
    """Whether all epochs are done, or the last `patience` of them gained nothing."""
    if len(epochs) >= most:
        return True
    if patience is None or not epochs or epochs[-1].validation is None:
        return False
    return len(epochs) - best_epoch(epochs) >= patience


def not_counts(choices: object, *names: str) -> Iterator[str]:
    """Choices that must be whole numbers of at least one; None stands for no choice."""
    for name in names:
        value = getattr(choices, name)
        if value is not None and not _whole(value):
            yield f"{name} is {value!r}; it must be a whole number, at least 1."


def not_positive(choices: object, *names: str) -> Iterator[str]:
    """Choices that must be numbers above zero."""
    for name in names:
        value = getattr(choices, name)
        if not (is_number(value) and value > 0):
            yield f"{name} is {value!r}; it must be a number above 0."


def not_within(choices: object, name: str, *, zero: bool) -> Iterator[str]:
    """A share: from zero to below one, or from above zero to one."""
    value = getattr(choices, name)
    if not is_number(value) or not (0 <= value < 1 if zero else 0 < value <= 1):
        words = "from 0 to below 1" if zero else "above 0, up to 1"
        yield f"{name} is {value!r}; it is a share, {words}."


def not_among(choices: object, name: str, *allowed: str) -> Iterator[str]:
    """A choice of another name."""
    value = getattr(choices, name)
    if value not in allowed:
        yield f"{name} is {value!r}; it must be {' or '.join(map(repr, allowed))}."


def is_number(value: object) -> bool:
    """Whether it is a finite number, and no truth value."""
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)


def _whole(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 1
