"""Adam on batches over all centers: the path of pooled training, however patients are split.

Every center draws the same batch from the same seed and replies with the sum over its own part
of it. Only the coordinator moves the parameters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np

from fedcox.errors import InputError
from fedcox.federation.batch import EpochBatch, EpochCells, HeldOut
from fedcox.federation.queries.network_gradient import NetworkGradientAt
from fedcox.federation.query import Federation
from fedcox.solvers.network_epochs import AbstractTraining, Epochs
from fedcox.solvers.network_solver import (
    AbstractNetworkSolver,
    Checkpoint,
    NetworkProblem,
    NetworkSolution,
    NetworkStep,
    NetworkWatcher,
    Point,
    check_finite,
    held_out,
    validation_loss,
)
from fedcox.solvers.training_choices import not_among, not_counts, not_positive, not_within
from fedcox.survival.cohort import FloatArray
from fedcox.survival.descent import AdamDescent

Batching = Literal["patients", "rows"]

#: Patients, or rows of the stack, of a step, where nobody says how many; the second is the
#: paper's, and is about three patients of its cohorts.
_SIZES: dict[Batching, int] = {"patients": 16, "rows": 100}
#: Pairs of patient and interval that are put into one order for every epoch.
_MOST_PAIRS = 50_000_000


@dataclass(frozen=True)
class NetworkAdam(AbstractNetworkSolver):
    """`epochs` passes of Adam over the patients of all centers, one round a batch.

    With `batching` "patients" a step looks at `batch_size` patients with all their intervals,
    each patient once an epoch; with "rows" at about `batch_size` rows of the stack, as in the
    paper, which costs a pass through the network for each. A share `validation` of the patients
    is never trained on; after every epoch the loss on them is asked for, training ends when
    the last `patience` epochs gained nothing, and the best parameters are kept.
    """

    epochs: int = 25
    batch_size: int | None = None
    learning_rate: float = 1e-3
    batching: Batching = "patients"
    validation: float = 0.0
    patience: int | None = 5

    def __post_init__(self) -> None:
        faults = [
            *not_counts(self, "epochs", "batch_size", "patience"),
            *not_positive(self, "learning_rate"),
            *not_within(self, "validation", zero=True),
            *not_among(self, "batching", *_SIZES),
        ]
        if faults:
            raise InputError("A network cannot be trained like this.", faults)

    @property
    def size(self) -> int:
        """Patients or rows of a step."""
        return _SIZES[self.batching] if self.batch_size is None else self.batch_size

    def minimise(
        self,
        federation: Federation,
        problem: NetworkProblem,
        watch: NetworkWatcher = lambda step: None,
        checkpoint: Checkpoint | None = None,
    ) -> NetworkSolution:
        held = held_out(self.validation, problem)
        batches = _Batches.of(self, problem, held)
        training = _Training(federation, problem, batches, self.learning_rate, watch)
        validate = partial(validation_loss, federation, problem.setting, held)
        return Epochs(self.epochs, self.patience, validate).of(training, watch, checkpoint)


@dataclass(frozen=True)
class _Step:
    """What one step asks about: its part of everything, and by what its sums are divided."""

    batch: EpochBatch | EpochCells | None
    size: float


@dataclass(frozen=True)
class _Batches:
    """The steps of an epoch; `patients` are those trained on."""

    seed: int
    size: int
    patients: int
    population: int
    held: HeldOut | None
    intervals: int = 0  # where rows are drawn
    rows_per_pair: float = 0.0

    @classmethod
    def of(cls, solver: NetworkAdam, problem: NetworkProblem, held: HeldOut | None) -> _Batches:
        patients = problem.patients - (0 if held is None else held.size)
        plain = cls(problem.seed, solver.size, patients, problem.patients, held)
        if solver.batching == "patients":
            return plain
        intervals = problem.setting.intervals
        if problem.cells is None or problem.patients * intervals > _MOST_PAIRS:
            raise InputError(
                "Rows of the stack cannot be drawn here.",
                [
                    f"There are more than {_MOST_PAIRS:,} pairs of patient and interval, or "
                    'they were not counted. Take batching = "patients".'
                ],
            )
        share = problem.cells / (problem.patients * intervals)
        candidates = max(1, round(solver.size / share))
        return cls(problem.seed, candidates, patients, problem.patients, held, intervals, share)

    @property
    def steps(self) -> int:
        pairs = self.patients * max(1, self.intervals)
        return -(-pairs // self.size)

    @property
    def sizes_per_patient(self) -> float:
        """How much of `_Step.size` one patient is, on average."""
        return self.rows_per_pair * self.intervals if self.intervals else 1.0

    def at(self, epoch: int, index: int) -> _Step:
        place = self.seed, epoch, index, self.size, self.population
        if self.intervals:
            cells = EpochCells(*place, self.intervals, self.held)
            return _Step(cells, self.rows_per_pair * cells.drawn)
        if self.held is None and self.size >= self.population:
            return _Step(None, float(self.population))  # everybody: no batch at all
        batch = EpochBatch(*place, self.held)
        return _Step(batch, float(batch.patients))


class _ResumableAdam(AdamDescent):
    """Adam whose memory of earlier gradients can be kept and taken up again."""

    def resume(self, arrays: Mapping[str, FloatArray]) -> None:
        self._first[:], self._second[:] = arrays["first"], arrays["second"]
        self._steps = int(arrays["steps"][0])

    @property
    def memory(self) -> dict[str, FloatArray]:
        steps = np.array([self._steps], dtype=np.float64)
        return {"first": self._first.copy(), "second": self._second.copy(), "steps": steps}


class _Training(AbstractTraining):
    """Where training is: one vector (θ, α), Adam's memory, the best so far."""

    def __init__(
        self,
        federation: Federation,
        problem: NetworkProblem,
        batches: _Batches,
        rate: float,
        watch: NetworkWatcher,
    ) -> None:
        self._federation, self._setting = federation, problem.setting
        self._batches, self._rate, self._watch = batches, rate, watch
        self._split = problem.theta.size
        self._point = np.concatenate([problem.theta, problem.alpha])
        self._gradient = np.empty_like(self._point)
        self._adam = _ResumableAdam(self._point.size)
        self._best = self._point.copy()

    @property
    def point(self) -> Point:
        return self._parts(self._point)

    @property
    def best(self) -> Point:
        return self._parts(self._best)

    def _parts(self, vector: FloatArray) -> Point:
        """Of a copy: the vector itself is moved by later steps."""
        copied = vector.copy()
        return copied[: self._split], copied[self._split :]

    def train(self, epoch: int) -> float:
        total = 0.0
        batches, gradient, split = self._batches, self._gradient, self._split
        for index in range(batches.steps):
            step = batches.at(epoch, index)
            query = NetworkGradientAt(self._setting, *self.point, step.batch)
            summed = self._federation.ask(query)
            np.divide(summed.theta, step.size, out=gradient[:split])
            np.divide(summed.alpha, step.size, out=gradient[split:])
            check_finite(summed.loss + float(gradient.sum()), epoch)
            self._adam.step(self._point, gradient, self._rate)
            total += summed.loss
            loss = summed.loss / step.size * batches.sizes_per_patient
            self._watch(NetworkStep(epoch, index + 1, batches.steps, loss))
        return total / batches.patients

    def keep(self) -> None:
        self._best[:] = self._point

    @property
    def arrays(self) -> dict[str, FloatArray]:
        return {"point": self._point.copy(), "best": self._best.copy(), **self._adam.memory}

    def resume(self, arrays: Mapping[str, FloatArray]) -> None:
        self._point[:], self._best[:] = arrays["point"], arrays["best"]
        self._adam.resume(arrays)
