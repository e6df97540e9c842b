"""How far each patient comes, in intervals or pieces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fedcox.survival.cohort import BoolArray, FloatArray, IntArray

#: Patients counted at a time, at least: fresh memory costs more than counting.
_CHUNK = 2**16


@dataclass(frozen=True, eq=False)
class TimeAtRisk:
    """How far each patient comes, in intervals.

    A patient passes the first `passed` intervals without the event. In the next one it may have
    the `event`, and it is at risk there by `part` (from zero to one) beside that. Grouped time
    puts an event's whole interval into the event's own cost, so that its part is zero; in a
    piece of a piecewise constant hazard the part is the share of the piece lived through.

    Where `copies` are given, nobody knows when a tied event was among others: it counts as so
    many events, each of a share, one in each of as many intervals from `passed` on.
    """

    passed: IntArray
    event: BoolArray
    part: FloatArray
    copies: IntArray | None = None

    @cached_property
    def intervals(self) -> IntArray:
        """In how many intervals, from the first on, each patient counts."""
        return np.asarray(self.passed + (self.event | (self.part > 0)))

    def rows(self, chosen: IntArray) -> TimeAtRisk:
        """The same of some patients."""
        copies = None if self.copies is None else self.copies[chosen]
        return TimeAtRisk(self.passed[chosen], self.event[chosen], self.part[chosen], copies)

    @classmethod
    def joined(cls, placed: Sequence[TimeAtRisk]) -> TimeAtRisk:
        """Of patients one after the other."""
        if len(placed) == 1:
            return placed[0]
        copies = [one.copies for one in placed if one.copies is not None]
        return cls(
            np.concatenate([one.passed for one in placed]),
            np.concatenate([one.event for one in placed]),
            np.concatenate([one.part for one in placed]),
            np.concatenate(copies) if copies else None,
        )

    def leavers(self, total: int) -> IntArray:
        """How many patients are at risk last in interval 0 (never), 1, …, `total`.

        The first row counts those without the event there, the second those with it: slopes
        tell one from the other.
        """
        counts = np.zeros(2 * (total + 1), dtype=np.int64)
        chunk = max(_CHUNK, 4 * counts.size)
        for start in range(0, self.passed.size, chunk):
            some = slice(start, start + chunk)
            intervals = self.passed[some] + (self.event[some] | (self.part[some] > 0))
            counts += np.bincount(2 * intervals + self.event[some], minlength=counts.size)
        return counts.reshape(-1, 2).T

    def within(self, active: BoolArray) -> TimeAtRisk:
        """The same counted in `active` intervals alone; the others no longer exist."""
        if active.all():
            return self
        before = np.concatenate([[0], np.cumsum(active)])
        kept = np.concatenate([[False], active, [False]])
        following = kept[self.passed + 1]
        return TimeAtRisk(
            before[self.passed],
            self.event & following,
            np.where(following, self.part, 0.0),
            self.copies,
        )
