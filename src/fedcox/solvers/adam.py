"""Adam, on all patients or on pooled-equivalent batches: the paper's solver.

The path is that of pooled training, however patients are split: every center draws the same
batch from the same seed and replies with the sum over its own part of it. Only the coordinator
moves the parameters. `Adam` is a search for the optimum of a linear predictor; `NetworkAdam`
goes through the patients epoch by epoch, and keeps what does best on others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

from fedcox.errors import InputError
from fedcox.federation.batch import EpochBatch, EpochCells, HeldOut, PatientBatch
from fedcox.federation.compression import (
    NOT_ADDITIVE,
    AbstractCodec,
    CompressionName,
    EightBit,
    ErrorFeedback,
    Float32,
    RandomPlaces,
    Sign,
    TopK,
)
from fedcox.federation.queries.compressed_gradient import (
    AbstractCompressedGradient,
    CompressedGradientAt,
    RandomEntriesAt,
)
from fedcox.federation.queries.derivatives import DerivativesAt
from fedcox.federation.query import Federation
from fedcox.federation.setting import Setting
from fedcox.solvers.losses import DiscreteTimeLoss, setting_of
from fedcox.solvers.solver import (
    CLOSE,
    AbstractSolver,
    Point,
    Problem,
    Search,
    Solution,
    Watcher,
)
from fedcox.solvers.training import (
    AbstractEpochTrainer,
    AbstractTraining,
    TrainingStep,
    TrainingWatcher,
    Walk,
    check_finite,
    decayed,
    not_among,
    not_counts,
    not_positive,
    not_within,
)
from fedcox.survival.derivatives import Derivatives, Detail
from fedcox.survival.descent import AdamDescent

#: The share of entries that travel where a compression sends some and nobody says how many.
DEFAULT_KEEP = 0.1

_Compressed = Callable[[DerivativesAt, int], AbstractCompressedGradient]
Batching = Literal["patients", "rows"]

#: Patients, or rows of the stack, of a step, where nobody says how many; the second is the
#: paper's, and is about three patients of its cohorts.
_SIZES: dict[Batching, int] = {"patients": 16, "rows": 100}
#: Pairs of patient and interval that are put into one order for every epoch.
_MOST_PAIRS = 50_000_000


@dataclass(frozen=True)
class Adam(AbstractSolver):
    """`steps` rounds of Adam with `learning_rate`, which falls to zero over the second half.

    With `batch_size` each round uses patients drawn over the whole study by `seed`; the path is
    the same however they are split over centers. Without it every patient counts every round.

    With `compression` the gradients travel in fewer bytes; `keep` is the share of entries that
    "top-k" and "random-k" send, and `seed` says which ones the latter does. What a center has
    not sent it adds to its next reply, unless `error_feedback` is off. The path then depends a
    little on the split. The information of the last round is not compressed.
    """

    learning_rate: float = 1e-2
    steps: int = 2000
    batch_size: int | None = None
    seed: int = 0
    compression: CompressionName = "none"
    keep: float | None = None
    error_feedback: bool = True

    def minimise(
        self, federation: Federation, problem: Problem, watch: Watcher = lambda step: None
    ) -> Solution:
        walk = Walk(problem, AdamDescent)
        compressed = self._compressed(federation, problem)
        people = problem.patients if self.batch_size is None else self.batch_size
        search = Search(federation, problem, watch)
        for number in range(1, self.steps + 1):
            summed = self._summed(federation, problem, compressed, walk.point, number)
            search.note(walk.look(summed, people) * problem.patients)
            walk.step(decayed(self.learning_rate, number, self.steps))
        return search.judged(walk.point, CLOSE)

    def _compressed(self, federation: Federation, problem: Problem) -> _Compressed | None:
        """What asks for gradients in fewer bytes, made anew for a search; None without."""
        if self.compression == "none":
            return None
        if not isinstance(problem.loss, DiscreteTimeLoss):
            raise InputError(
                "Compression is there for the discrete-time model alone.",
                ['Take compression = "none" for this one.'],
            )
        if self.compression in NOT_ADDITIVE and not federation.shows_centers:
            raise InputError(
                f'The compression "{self.compression}" cannot be summed under masks.',
                [
                    f'The reason: {NOT_ADDITIVE[self.compression]}. Take "random-k", whose '
                    'replies add, or "none".'
                ],
            )
        keep = DEFAULT_KEEP if self.keep is None else self.keep
        feedback = ErrorFeedback() if self.error_feedback else None
        if self.compression == "random-k":
            places = RandomPlaces(keep, self.seed)
            return partial(RandomEntriesAt, places=places, feedback=feedback)
        codecs: dict[str, AbstractCodec] = {
            "float32": Float32(),
            "8-bit": EightBit(),
            "sign": Sign(),
            "top-k": TopK(keep),
        }
        codec = codecs[self.compression]
        return partial(CompressedGradientAt, codec=codec, feedback=feedback)

    def _summed(
        self,
        federation: Federation,
        problem: Problem,
        compressed: _Compressed | None,
        point: Point,
        number: int,
    ) -> Derivatives:
        """Loss and gradient, of everyone or of this round's batch."""
        batch = None
        if self.batch_size is not None:
            batch = PatientBatch(self.seed, number, self.batch_size, problem.patients)
        if compressed is None:
            return problem.loss(federation, point, Detail.GRADIENT, batch)
        setting = setting_of(problem, "Compression")
        query = compressed(DerivativesAt(setting, *point, Detail.GRADIENT, batch), number)
        return query.derivatives(federation.ask(query))


@dataclass(frozen=True)
class NetworkAdam(AbstractEpochTrainer):
    """Passes of Adam over the patients of all centers; each batch is one round of questions.

        g = Σ over centers (sum of the slopes of their patients in the batch) / batch size,
        θ ← θ − learning_rate · (mean of past g) / √(mean of past g²)

    epochs          passes over the patients
    batch_size      patients of a step, 16 if not given; of rows 100
    learning_rate   how far a step may move a weight
    batching        "patients", with all their intervals, each once an epoch; "rows", cells of
                    the stack as in the paper, with a pass through the network for each
    validation      share of the patients who are never trained on; the loss on them, asked
                    for after every epoch, says which weights are kept
    patience        training ends when so many epochs gained nothing on them

    Batches are drawn over all patients by seed: the path is that of pooled training.

    >>> import fedcox
    >>> solver = fedcox.NetworkAdam(epochs=10, learning_rate=0.01, validation=0.2)
    >>> solver.size
    16
    >>> plan = fedcox.NetworkPlan(fedcox.Perceptron(columns=2), solver=solver)

    Next: `fedcox.train_network(plan, federation)`; fewer rounds: `fedcox.NetworkAveraging`.
    """

    epochs: int = 25
    batch_size: int | None = None
    learning_rate: float = 1e-3
    batching: Batching = "patients"
    validation: float = 0.0
    patience: int | None = 5

    what = "Training by epochs"

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

    @property
    def most(self) -> int:
        return self.epochs

    def begin(
        self,
        federation: Federation,
        problem: Problem,
        setting: Setting,
        held: HeldOut | None,
        watch: TrainingWatcher,
    ) -> AbstractTraining:
        batches = _Batches.of(self, problem, setting.intervals, held)
        return _AdamTraining(federation, problem, setting, batches, self.learning_rate, watch)


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
    def of(
        cls, solver: NetworkAdam, problem: Problem, intervals: int, held: HeldOut | None
    ) -> _Batches:
        patients = problem.patients - (0 if held is None else held.size)
        plain = cls(problem.seed, solver.size, patients, problem.patients, held)
        if solver.batching == "patients":
            return plain
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
        """By what sums are divided, for one patient on average."""
        return self.rows_per_pair * self.intervals if self.intervals else 1.0

    def at(self, epoch: int, index: int) -> tuple[EpochBatch | EpochCells | None, float]:
        """What a step asks about, None for everybody, and by what its sums are divided."""
        place = self.seed, epoch, index, self.size, self.population
        if self.intervals:
            cells = EpochCells(*place, self.intervals, self.held)
            return cells, self.rows_per_pair * cells.drawn
        if self.held is None and self.size >= self.population:
            return None, float(self.population)
        batch = EpochBatch(*place, self.held)
        return batch, float(batch.patients)


class _AdamTraining(AbstractTraining):
    """Goes on by batches of an epoch."""

    def __init__(
        self,
        federation: Federation,
        problem: Problem,
        setting: Setting,
        batches: _Batches,
        rate: float,
        watch: TrainingWatcher,
    ) -> None:
        super().__init__(Walk(problem, AdamDescent))
        self._federation, self._loss = federation, DiscreteTimeLoss(setting)
        self._batches, self._rate, self._watch = batches, rate, watch

    def train(self, epoch: int) -> float:
        total, walk, batches = 0.0, self.walk, self._batches
        for index in range(batches.steps):
            batch, size = batches.at(epoch, index)
            summed = self._loss(self._federation, walk.point, Detail.GRADIENT, batch)
            loss = walk.look(summed, size)
            check_finite(summed.loss + float(walk.gradient.sum()), epoch)
            walk.step(self._rate)
            total += summed.loss
            loss *= batches.sizes_per_patient
            self._watch(TrainingStep(epoch, index + 1, batches.steps, loss))
        return total / batches.patients
