"""Which patients, or which stacked rows, a round uses when it does not use all of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import ClassVar, TypeAlias

import numpy as np

from fedcox.survival.bounds import (
    MOST_DRAWN,
    MOST_ORDERED,
    MOST_PATIENTS,
    MOST_ROUNDS,
    MOST_STEPS,
    between,
    not_negative,
)
from fedcox.survival.cohort import IntArray

#: Candidates drawn at a time: starting a generator costs more than a small batch does.
_BLOCK = 65_536
_HELD_OUT = 1


@dataclass(frozen=True)
class PatientBatch:
    """Patients drawn over all of them in the study, with replacement (the paper, section 2.2).

    Every center draws the same numbers from the same seed and takes those that are its own, so
    the batch is that of the pooled patients whoever holds them.
    """

    name: ClassVar[str] = "a batch"
    sent: ClassVar[int] = 4  # numbers that describe it

    seed: int
    step: int
    size: int
    population: int

    def faults(self, columns: int | None) -> Iterator[str]:
        """Every center draws all of it."""
        yield from _drawn_faults(self.seed, self.step, self.population)
        yield from between("size", self.size, 1, MOST_DRAWN)

    def numbers(self) -> IntArray:
        """Study numbers of the patients in this batch."""
        return self._drawn

    @cached_property
    def _drawn(self) -> IntArray:
        rng = np.random.default_rng((self.seed, self.step))
        drawn = rng.integers(self.population, size=self.size)
        drawn.flags.writeable = False
        return drawn


@dataclass(frozen=True)
class CellBatch:
    """Stacked rows – cells of patient and interval – drawn over all of them, with replacement.

    Every center draws the same candidates from the same seed, a patient of the study and one
    of the fitted `intervals`, and takes those that are its own patients at risk there. So every
    row of the stack is as likely as any other, the batch is that of the pooled stack whoever
    holds the patients, and no center learns how many rows another one has.

    The paper draws a fixed number of rows. Here the candidates are fixed, and how many of them
    are rows is left to chance: on average `candidates` times the share of all pairs of patient
    and interval that are at risk.
    """

    name: ClassVar[str] = "a batch of cells"
    sent: ClassVar[int] = 4  # numbers that describe it

    seed: int
    step: int
    candidates: int
    population: int
    intervals: int

    def faults(self, columns: int | None) -> Iterator[str]:
        """Every center draws all candidates."""
        yield from _drawn_faults(self.seed, self.step, self.population)
        yield from between("candidates", self.candidates, 1, MOST_DRAWN)
        if self.intervals < 1:
            yield "intervals must be at least one"

    def pairs(self) -> tuple[IntArray, IntArray]:
        """Study numbers and intervals of the candidates."""
        steps = max(1, _BLOCK // self.candidates)
        block, row = divmod(self.step, steps)
        numbers, intervals = _drawn_pairs(
            self.seed, block, (steps, self.candidates), self.population, self.intervals
        )
        return numbers[row], intervals[row]


@lru_cache(maxsize=2)
def _drawn_pairs(
    seed: int, block: int, shape: tuple[int, int], population: int, intervals: int
) -> tuple[IntArray, IntArray]:
    """The candidates of neighbouring steps, one row each: every center asks for them again."""
    rng = np.random.default_rng((seed, block))
    drawn = rng.integers(population, size=shape), rng.integers(intervals, size=shape)
    for numbers in drawn:
        numbers.flags.writeable = False
    return drawn


@dataclass(frozen=True)
class HeldOut:
    """Patients of the study who are kept from training, to see how well it does on others.

    They are drawn by `seed` over all study numbers, so they are the same however the patients
    are split over centers. At least one patient is held out, and at least one is not.
    """

    name: ClassVar[str] = "held-out patients"

    seed: int
    share: float
    population: int

    def faults(self, columns: int | None) -> Iterator[str]:
        """Every center puts all study numbers into one order."""
        yield from not_negative("seed", self.seed)
        yield from between("population", self.population, 2, MOST_ORDERED)
        if not 0 < self.share < 1:
            yield "share must be between 0 and 1"

    @property
    def size(self) -> int:
        """How many patients are held out."""
        return min(max(1, round(self.share * self.population)), self.population - 1)

    def numbers(self) -> IntArray:
        """Study numbers of the patients held out, in order."""
        return _parted(self)[0]

    def others(self) -> IntArray:
        """Study numbers of all other patients, in order."""
        return _parted(self)[1]


@lru_cache(maxsize=4)
def _parted(held: HeldOut) -> tuple[IntArray, IntArray]:
    # The third number keeps this draw apart from those of epochs, which have the same seed.
    rng = np.random.default_rng((held.seed, held.population, _HELD_OUT))
    drawn = rng.permutation(held.population)
    parts = np.sort(drawn[: held.size]), np.sort(drawn[held.size :])
    for part in parts:
        part.flags.writeable = False
    return parts


@dataclass(frozen=True)
class EpochBatch:
    """Patients of one step of an epoch, in which every patient of the study comes once.

    One permutation per epoch, the same for every center, is cut into pieces of `size`; the last
    one may be shorter. Patients in `left_out` are in none.
    """

    name: ClassVar[str] = "a batch"
    sent: ClassVar[int] = 8  # numbers that describe it

    seed: int
    epoch: int
    index: int
    size: int
    population: int
    left_out: HeldOut | None = None

    def faults(self, columns: int | None) -> Iterator[str]:
        """Every center puts all study numbers into one order."""
        yield from _epoch_faults(self)
        yield from between("size", self.size, 1, MOST_ORDERED)
        yield from between("population", self.population, 1, MOST_ORDERED)

    @property
    def patients(self) -> int:
        """How many patients this batch has, in all centers together."""
        everyone = _trained(self.population, self.left_out)
        return max(0, min(self.size, everyone - self.index * self.size))

    def numbers(self) -> IntArray:
        """Study numbers of the patients in this batch."""
        order = _epoch_order(self.seed, self.epoch, self.population, self.left_out)
        return order[self.index * self.size : (self.index + 1) * self.size]


@dataclass(frozen=True)
class EpochCells:
    """Stacked rows of one step of an epoch, in which every row of the stack comes once.

    All pairs of a patient and one of the fitted `intervals`, in one order per epoch, are cut
    into pieces of `candidates`. As in `CellBatch` a pair counts where that patient is at risk
    in that interval, which only the own center knows.
    """

    name: ClassVar[str] = "a batch of cells"
    sent: ClassVar[int] = 8  # numbers that describe it

    seed: int
    epoch: int
    index: int
    candidates: int
    population: int
    intervals: int
    left_out: HeldOut | None = None

    def faults(self, columns: int | None) -> Iterator[str]:
        """Every center puts all pairs of patient and interval into one order."""
        yield from _epoch_faults(self)
        pairs = self.population * self.intervals
        for name, number in (
            ("candidates", self.candidates),
            ("population", self.population),
            ("intervals", self.intervals),
            ("patients times intervals", pairs),
        ):
            yield from between(name, number, 1, MOST_ORDERED)

    @property
    def drawn(self) -> int:
        """How many pairs this batch looks at, in all centers together."""
        every = _trained(self.population, self.left_out) * self.intervals
        return max(0, min(self.candidates, every - self.index * self.candidates))

    def pairs(self) -> tuple[IntArray, IntArray]:
        """Study numbers and intervals of the candidates."""
        order = _pair_order(
            self.seed, self.epoch, self.population, self.intervals, self.left_out
        )
        piece = order[self.index * self.candidates : (self.index + 1) * self.candidates]
        place, intervals = np.divmod(piece, self.intervals)
        if self.left_out is None:
            return place, intervals
        return self.left_out.others()[place], intervals


#: Whom a round uses: some patients, or some cells.
Batch: TypeAlias = PatientBatch | CellBatch | EpochBatch | EpochCells


def _drawn_faults(seed: int, step: int, population: int) -> Iterator[str]:
    yield from not_negative("seed", seed)
    yield from between("step", step, 0, MOST_ROUNDS)
    yield from between("population", population, 1, MOST_PATIENTS)


def _epoch_faults(batch: EpochBatch | EpochCells) -> Iterator[str]:
    yield from not_negative("seed", batch.seed)
    yield from between("epoch", batch.epoch, 0, MOST_STEPS)
    yield from between("index", batch.index, 0, MOST_ORDERED)
    if batch.left_out is not None and batch.left_out.population != batch.population:
        yield "patients are left out of another population"


def _trained(population: int, left_out: HeldOut | None) -> int:
    return population - (0 if left_out is None else left_out.size)


@lru_cache(maxsize=2)
def _epoch_order(seed: int, epoch: int, population: int, left_out: HeldOut | None) -> IntArray:
    rng = np.random.default_rng((seed, epoch))
    everyone = np.arange(population) if left_out is None else left_out.others()
    order = rng.permutation(everyone)
    order.flags.writeable = False
    return order


@lru_cache(maxsize=1)
def _pair_order(
    seed: int, epoch: int, population: int, intervals: int, left_out: HeldOut | None
) -> IntArray:
    rng = np.random.default_rng((seed, epoch))
    order = rng.permutation(_trained(population, left_out) * intervals)
    order.flags.writeable = False
    return order
