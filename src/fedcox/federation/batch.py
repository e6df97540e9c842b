"""Which patients, or which stacked rows, a round uses when it does not use all of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import ClassVar

import numpy as np

from fedcox.survival.cohort import IntArray

#: Candidates drawn at a time: starting a generator costs more than a small batch does.
_BLOCK = 65_536


@dataclass(frozen=True)
class PatientBatch:
    """Patients drawn over all of them in the study, with replacement (the paper, section 2.2).

    Every center draws the same numbers from the same seed and takes those that are its own, so
    the batch is that of the pooled patients whoever holds them.
    """

    name: ClassVar[str] = "a batch"

    seed: int
    step: int
    size: int
    population: int

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

    seed: int
    step: int
    candidates: int
    population: int
    intervals: int

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
