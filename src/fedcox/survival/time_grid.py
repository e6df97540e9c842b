"""When time is looked at: intervals of one width, or every distinct event time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from fedcox.errors import StudyError
from fedcox.survival.cohort import BoolArray, FloatArray, IntArray

CensoredInterval = Literal["include", "exclude", "half"]

#: A width in the wrong unit asks for more; there is no study with so many.
_MOST_INTERVALS = 1_000_000


@dataclass(frozen=True, eq=False)
class TimeAtRisk:
    """In which intervals each patient is at risk.

    A patient is at risk in the first `intervals` intervals, has the event in the last of them
    if `event`, and is at risk with weight one half in the next one if `half`.
    """

    intervals: IntArray
    event: BoolArray
    half: BoolArray

    def leavers(self, total: int) -> IntArray:
        """How many patients are at risk last in interval 0 (never), 1, …, `total`.

        The first row counts those without the event there, the second those with it: slopes
        tell one from the other.
        """
        last = self.intervals + self.half
        counts = np.bincount(2 * last + self.event, minlength=2 * (total + 1))
        return counts.reshape(-1, 2).T

    def within(self, active: BoolArray) -> TimeAtRisk:
        """The same counted in `active` intervals alone; the others no longer exist."""
        before = np.concatenate([[0], np.cumsum(active)])
        kept = np.concatenate([[False], active, [False]])
        return TimeAtRisk(
            before[self.intervals],
            self.event & kept[self.intervals],  # the event is in the last interval at risk
            self.half & kept[self.intervals + 1],  # the half one follows it
        )


@dataclass(frozen=True, eq=False)
class TimeGrid:
    """Right ends of the intervals, increasing; the last is the horizon.

    With `width` the intervals are (0, Q], (Q, 2Q], … and a time stands for its interval's end,
    t → Q·⌈t/Q⌉ (the paper's quantisation). Without it each edge is an *instant*: a distinct
    event time s, with everyone still under observation at s at risk there, as in Cox's model.
    `ends` counts how many intervals of one width each edge closes, where neighbours were merged
    into one; None where none were.
    """

    edges: FloatArray
    width: float | None = None
    ends: IntArray | None = None

    def __post_init__(self) -> None:
        edges = np.array(self.edges, dtype=np.float64)
        increasing = edges.ndim == 1 and edges.size > 0 and bool((np.diff(edges) > 0).all())
        if not increasing or not np.isfinite(edges).all() or edges[0] < 0:
            raise StudyError(
                "The time grid needs at least one edge, all finite and strictly increasing."
            )
        edges.flags.writeable = False
        object.__setattr__(self, "edges", edges)

    @classmethod
    def regular(cls, width: float, horizon: float) -> TimeGrid:
        """Intervals of one width up to `horizon`, which closes the last one."""
        if not (width > 0 and horizon > 0 and np.isfinite(width) and np.isfinite(horizon)):
            raise StudyError("The grid's width and horizon must be positive and finite.")
        if horizon / width > _MOST_INTERVALS:
            raise StudyError(
                f"Intervals of width {width:g} up to {horizon:g} are more than "
                f"{_MOST_INTERVALS:,}.",
                ["Choose a larger width, in the unit of the follow-up time."],
            )
        # A width far beyond the horizon is rounded to none: one interval holds everything.
        last = max(1, int(_interval_of(np.array([horizon]), width)[0]))
        edges = width * np.arange(1, last + 1, dtype=np.float64)
        edges[-1] = horizon
        return cls(edges, width=width)

    @classmethod
    def at_events(cls, times: FloatArray) -> TimeGrid:
        """Every distinct time in `times`, each an instant."""
        return cls(np.unique(times))

    def merged(self, last: BoolArray) -> TimeGrid:
        """Each interval joined with those after it up to one marked `last`; later ones go."""
        if self.width is None or self.ends is not None:
            raise ValueError("Only intervals of one width can be merged, and once.")
        ends = np.flatnonzero(last) + 1
        return TimeGrid(self.edges[last], self.width, ends)

    @property
    def intervals(self) -> int:
        return int(self.edges.size)

    @property
    def horizon(self) -> float:
        return float(self.edges[-1])

    @property
    def numbers(self) -> int:
        """How many numbers describe this grid to a center."""
        if self.width is None:
            return self.intervals
        return 2 if self.ends is None else 2 + self.intervals

    def at_risk(
        self, time: FloatArray, event: BoolArray, reading: CensoredInterval
    ) -> TimeAtRisk:
        """Place patients on the grid.

        `reading` says what a patient censored inside an interval (or at an event time) counts
        there: `include` as at risk, like Cox's risk set; `exclude` not at all; `half` one half.
        """
        happened = event & (time <= self.horizon)
        if self.width is None:
            own = np.searchsorted(self.edges, time, side="right")
            # Between two instants nobody is at risk of anything: all readings agree there.
            open_end = ~happened & (own > 0)
            open_end &= self.edges[np.maximum(own, 1) - 1] == time
            own = np.maximum(own, happened)
        else:
            own = _interval_of(time, self.width)
            if self.ends is not None:
                own = 1 + np.searchsorted(self.ends, own)
            own = np.minimum(np.maximum(own, 1), self.intervals)
            open_end = ~happened & (time <= self.horizon)
        if reading == "include":
            return TimeAtRisk(own, happened, np.zeros(time.shape, dtype=np.bool_))
        half = open_end if reading == "half" else np.zeros(time.shape, dtype=np.bool_)
        return TimeAtRisk(own - open_end, happened, half)


def _interval_of(time: FloatArray, width: float) -> IntArray:
    """⌈t/Q⌉, where a ratio within rounding of a whole number is that number."""
    ratio = time / width
    # 1.1 / 0.1 is 11.000000000000002: without this, day 1.1 would fall into interval 12.
    ratio -= 1e-9 * np.maximum(ratio, 1.0)
    return np.ceil(ratio, out=ratio).astype(np.int64)
