"""Ties, as the default fit treats them: Efron's way, equation (74).

The pieces of an event time with several events, and who is at risk in each of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedcox.survival.cohort import BoolArray, FloatArray, IntArray
from fedcox.survival.time_at_risk import TimeAtRisk

#: Pieces that tied events are spread over at most; without a limit the sum is Efron's.
STEPS = 8


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
