"""How far each patient comes, in intervals or pieces; tied events among others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fedcox.survival.cohort import BoolArray, FloatArray, IntArray

#: Patients counted at a time, at least: fresh memory costs more than counting.
_CHUNK = 2**16
#: Pieces that tied events are spread over at most; without a limit the sum is Efron's.
STEPS = 8


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


@dataclass(frozen=True, eq=False)
class TiedPieces:
    """Pieces of one event time each: a few for those with tied events.

    first       (pieces,) the first piece of the same event time
    steps       (pieces,) how many pieces that time has
    ties        (pieces,) how many events
    """

    first: IntArray
    steps: IntArray
    ties: IntArray

    @classmethod
    def of(cls, ties: IntArray) -> TiedPieces:
        steps, place = np.clip(ties, 1, STEPS), np.arange(ties.size)
        if ties.max(initial=0) <= 1:
            return cls(place, steps, ties)
        # Event times with as many ties follow each other, each with its own pieces.
        begun = np.maximum.accumulate(np.where(np.diff(ties, prepend=-1) != 0, place, 0))
        return cls(place - (place - begun) % steps, steps, ties)

    @property
    def part(self) -> FloatArray:
        """How much of its piece a copy of an event is at risk: all, if each has its own."""
        return 0.5 + self.steps / (2.0 * np.maximum(self.ties, self.steps))

    def at_risk(self, passed: IntArray, event: BoolArray, inside: BoolArray) -> TimeAtRisk:
        """Of patients who leave `inside` a piece, after so many pieces `passed`."""
        if self.ties.max(initial=0) <= 1:
            return TimeAtRisk(
                passed + (inside & ~event), event, (inside & event).astype(np.float64)
            )
        piece = np.minimum(passed, self.first.size - 1)
        first, steps = self.first[piece], self.steps[piece]
        return TimeAtRisk(
            np.where(inside, np.where(event, first, first + steps), passed),
            event,
            np.where(inside & event, self.part[piece], 0.0),
            np.where(inside & event, steps, 1),
        )

    def counts(self, reached: FloatArray, events: FloatArray) -> tuple[FloatArray, FloatArray]:
        """How much is at risk in each piece, and how many events, from counts by event time."""
        time = np.cumsum(self.first == np.arange(self.first.size)) - 1
        within = np.arange(self.first.size) - self.first
        happened = events[time] / self.steps
        return reached[time] - happened * (within + 1.0 - self.part), happened
