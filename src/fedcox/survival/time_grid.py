"""How time is divided: into pieces of constant hazard, or into intervals of grouped time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedcox.errors import StudyError
from fedcox.survival.bounds import between, increase, not_negative, positive, shaped
from fedcox.survival.cohort import BoolArray, FloatArray, IntArray
from fedcox.survival.threads import in_order, parts
from fedcox.survival.ties import STEPS, TiedPieces
from fedcox.survival.time_at_risk import TimeAtRisk

CensoredInterval = Literal["include", "exclude", "half"]

#: So many times are looked up in buckets, of which there are so many to a bound; measured.
_MANY_TIMES, _BUCKETS = 4096, 4
#: What looking up a time costs, in numbers read.
LOOK_UP = 16
#: How far a number of units may lie from a whole one and still be it: times are written with
#: few digits.
ROUNDING = 1e-6
#: A width in the wrong unit asks for more; there is no study with so many.
MOST_INTERVALS = 10_000
#: Intervals before some were joined, and pieces with all that ties are spread over.
_MOST_UNITS = 1_000_000


@dataclass(frozen=True, eq=False)
class Pieces:
    """Pieces of time, (b_0, b_1], (b_1, b_2], …, within each of which the hazard is constant.

    bounds      (pieces + 1,) increasing; the last is the horizon
    unit        of the record: an event of "day 4" was somewhere in that day and stands at its
                middle; who is censored stands at the recorded time, the end of day 4, as in
                Cox's risk set; bounds are whole units then. None where times are exact
    ties        (pieces,) how many events the event time of each has, over all centers; None
                where pieces are longer than an event time. Whoever reaches an event time is at
                risk to its end, as in Cox's risk set, but for those d with the event. They
                leave one after the other, nobody knows in which order: the event time is cut
                into d pieces, `STEPS` at most, and each of them leaves in every piece by the
                same share. That is Efron's way with ties
    """

    bounds: FloatArray
    unit: float | None = None
    ties: IntArray | None = None

    grouped = False

    def __post_init__(self) -> None:
        bounds = _increasing(self.bounds, least=2)
        object.__setattr__(self, "bounds", bounds)
        if self.ties is not None and not _belong_together(self.ties, bounds.size - 1):
            raise StudyError("Event times and the pieces of their ties do not go together.")
        if self.unit is not None and not (self.unit > 0 and np.isfinite(self.unit)):
            raise StudyError("The unit in which times are recorded must be a positive number.")

    @classmethod
    def on_units(cls, bounds: FloatArray, unit: float | None) -> Pieces:
        """Pieces with these bounds, each moved down to a whole unit.

        So a time that is not beyond a bound is not beyond it afterwards either.
        """
        if unit is None:
            return cls(bounds)
        return cls(np.unique(whole_units(bounds, unit)) * unit, unit)

    @property
    def edges(self) -> FloatArray:
        """Where the pieces end."""
        return self.bounds[1:]

    @cached_property
    def widths(self) -> FloatArray:
        return np.diff(self.bounds)

    @property
    def intervals(self) -> int:
        return int(self.bounds.size) - 1

    @property
    def horizon(self) -> float:
        return float(self.bounds[-1])

    @property
    def numbers(self) -> int:
        """How many numbers describe these pieces to a center."""
        ties = 0 if self.ties is None else int(self.ties.size)
        return int(self.bounds.size) + 1 + ties

    def faults(self, columns: int | None) -> Iterator[str]:
        """Bounds are looked at when the pieces are made; what is left is that they are few."""
        yield from between("pieces", self.intervals, 1, _MOST_UNITS)
        if self.unit is not None:
            yield from positive("unit", self.unit)
        yield from not_negative("ties", self.ties)

    def joined(self, kept: IntArray) -> Pieces:
        """The pieces between those bounds that are `kept`, by their places."""
        return Pieces(self.bounds[kept], self.unit)

    def with_ties(self, events: FloatArray) -> Pieces:
        """Each piece an event time with so many events, or without any between two."""
        ties = np.rint(events).astype(np.int64)
        steps = np.clip(ties, 1, STEPS)
        first = np.cumsum(steps) - steps
        within = np.arange(steps.sum()) - np.repeat(first, steps)
        starts = np.repeat(self.bounds[:-1], steps)
        starts += within * np.repeat(self.widths / steps, steps)
        bounds = np.append(starts, self.bounds[-1])
        return Pieces(bounds, self.unit, np.repeat(ties, steps))

    @cached_property
    def tied(self) -> TiedPieces | None:
        """Which pieces belong to one event time; None where pieces are longer."""
        return None if self.ties is None else TiedPieces.of(self.ties)

    @cached_property
    def _lookup(self) -> _Lookup:
        """Of the bounds, in units if there are any."""
        if self.unit is None:
            return _Lookup(self.bounds)
        bounds = self.bounds / self.unit
        # Ties are spread over parts of a unit; all others are whole, but for rounding.
        return _Lookup(_rounded(bounds))

    def place(self, time: FloatArray, event: BoolArray) -> tuple[FloatArray, FloatArray]:
        """Where these times stand, and the bounds: both in units, if there are any."""
        if self.unit is None:
            return time, self.bounds
        # Whole numbers: nothing depends on how a unit of time is called.
        exact = _rounded(time / self.unit)
        middle = np.maximum(np.ceil(exact), 1.0) - 0.5
        return np.where(event, middle, exact), self._lookup.bounds

    def at_risk(
        self, time: FloatArray, event: BoolArray, reading: CensoredInterval = "include"
    ) -> TimeAtRisk:
        """Place patients on the pieces; time is exact, so that no `reading` is needed.

        An event before the first bound counts in the first piece, without any time at risk.
        """
        cut = parts(time.size, LOOK_UP)
        return TimeAtRisk.joined(in_order(lambda p: self._placed(time[p], event[p]), cut))

    def _placed(self, time: FloatArray, event: BoolArray) -> TimeAtRisk:
        place, bounds = self.place(time, event)
        after = self._lookup(place)
        # An event before the first bound is one of the first piece.
        inside = ((after > 0) | event) & (after < bounds.size)
        passed = np.maximum(after - 1, 0, out=after)
        if self.tied is not None:
            return self.tied.at_risk(passed, event & (passed < self.intervals), inside)
        start = np.minimum(passed, self.intervals - 1)
        lived = place - bounds.take(start)
        lived /= np.diff(bounds).take(start)
        np.maximum(lived, 0.0, out=lived)
        lived *= inside
        return TimeAtRisk(passed, event & (passed < self.intervals), lived)


@dataclass(frozen=True, eq=False)
class TimeGrid:
    """The intervals of grouped time; each time stands for its interval's end (the paper's).

        t → Q·⌈t/Q⌉        intervals (0, Q], (Q, 2Q], … of width Q

    edges   right ends of the intervals, increasing, in a unit of time; the last is the horizon
    width   Q. Without it each edge is an *instant*: a distinct event time s, with everyone
            still under observation at s at risk there, as in Cox's model
    ends    how many intervals of one width each edge closes, where neighbours were merged

    >>> import fedcox
    >>> grid = fedcox.TimeGrid.regular(width=90, horizon=400)
    >>> grid.edges.tolist()
    [90.0, 180.0, 270.0, 360.0, 400.0]

    Next: a study with `grid={"width": 90}` and the link "cloglog" or "logit" makes its own.
    """

    edges: FloatArray
    width: float | None = None
    ends: IntArray | None = None

    grouped = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "edges", _increasing(self.edges, least=1))

    @classmethod
    def regular(cls, width: float, horizon: float) -> TimeGrid:
        """Intervals of one width up to `horizon`, which closes the last one."""
        return cls(regular_edges(width, horizon), width=width)

    @classmethod
    def at_events(cls, times: FloatArray) -> TimeGrid:
        """Every distinct time in `times`, each an instant."""
        return cls(np.unique(times))

    @property
    def intervals(self) -> int:
        """How many there are."""
        return int(self.edges.size)

    @property
    def horizon(self) -> float:
        """Where the last one ends."""
        return float(self.edges[-1])

    def faults(self, columns: int | None) -> Iterator[str]:
        """Patients are placed by width, and groups judged by edges: these must be the same."""
        if self.width is None:
            if self.ends is not None:
                yield "ends count intervals of one width, and there is no width"
            return
        ends = np.arange(1, self.intervals + 1) if self.ends is None else self.ends
        yield from shaped("ends", ends, self.edges.shape, "one for each edge")
        if ends.shape != self.edges.shape:
            return
        if not (ends[0] >= 1 and ends[-1] <= _MOST_UNITS and increase(ends)):
            yield f"ends must increase, from above zero to {_MOST_UNITS:,}"
        elif not (self.width > 0 and self._closed_by(ends, self.width)):
            yield "the edges are not those of intervals of this width"

    def _closed_by(self, ends: IntArray, width: float) -> bool:
        """Whether edges close these intervals; the last may end early, at the horizon."""
        with np.errstate(over="ignore"):
            closing = width * ends.astype(np.float64)
            last_closes = ended_units(self.edges[-1], width) == ends[-1]
        return bool(last_closes) and np.array_equal(closing[:-1], self.edges[:-1])

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
        # Three intervals of 0.3 end at 0.8999999999999999, and 0.9 is not after them.
        horizon = self.horizon if self.width is None else self.horizon * (1.0 + 1e-9)
        happened = event & (time <= horizon)
        if self.width is None:
            interval = np.searchsorted(self.edges, time, side="right")
            # Between two instants nobody is at risk of anything: all readings agree there.
            open_end = ~happened & (interval > 0)
            open_end &= self.edges[np.maximum(interval, 1) - 1] == time
            interval = np.maximum(interval, happened)
        else:
            interval = _interval_of(time, self.width)
            if self.ends is not None:
                interval = 1 + np.searchsorted(self.ends, interval)
            interval = np.minimum(np.maximum(interval, 1), self.intervals)
            open_end = ~happened & (time <= horizon)
        part = np.where(open_end, 0.5, 0.0) if reading == "half" else np.zeros(time.shape)
        passed = interval - happened if reading == "include" else interval - happened - open_end
        return TimeAtRisk(passed, happened, part)


AnyGrid = TimeGrid | Pieces


def are_whole(numbers: FloatArray) -> BoolArray:
    """Which numbers of units are whole and above zero, where rounding is forgiven."""
    whole = np.rint(numbers)
    return np.asarray((whole > 0) & (np.abs(numbers - whole) <= ROUNDING))


def whole_units(times: FloatArray, unit: float) -> FloatArray:
    """How many whole units there are up to each time, where rounding is forgiven."""
    return np.floor(_rounded(np.asarray(times) / unit))


def ended_units(times: FloatArray, unit: float) -> FloatArray:
    """How many units there are up to the end of the one that each time is in."""
    return np.ceil(_rounded(np.asarray(times) / unit))


def distinct(bounds: FloatArray) -> FloatArray:
    """Times in their order, of those that differ by rounding alone the last."""
    bounds = np.unique(bounds)
    apart = np.diff(bounds, append=np.inf) > 1e-9 * np.abs(bounds)
    return np.asarray(bounds[apart])


def _rounded(numbers: FloatArray) -> FloatArray:
    """Numbers of units, those within rounding of a whole one made whole.

    1.1 / 0.1 is 11.000000000000002: without this, day 1.1 would fall into unit 12.
    """
    whole = np.rint(numbers)
    return np.where(np.abs(numbers - whole) <= ROUNDING, whole, numbers)


def _belong_together(ties: IntArray, pieces: int) -> bool:
    """Whether every event time has as many pieces as its ties say."""
    if ties.shape != (pieces,) or (ties < 0).any():
        return False
    if ties.max() <= 1:
        return True
    tied = TiedPieces.of(ties)
    whole = tied.first[-1] + tied.steps[-1] == pieces
    return bool(whole and (ties == ties[tied.first]).all())


def _increasing(edges: FloatArray, *, least: int) -> FloatArray:
    """A copy that cannot be written to, checked."""
    edges = np.array(edges, dtype=np.float64)
    increasing = edges.ndim == 1 and edges.size >= least and bool((np.diff(edges) > 0).all())
    if not increasing or not np.isfinite(edges).all() or edges[0] < 0:
        raise StudyError(
            "The time grid needs at least one edge, all finite and strictly increasing."
        )
    edges.flags.writeable = False
    return edges


def regular_edges(width: float, horizon: float) -> FloatArray:
    """Ends of intervals of one width up to `horizon`, which is the last of them."""
    if not (width > 0 and horizon > 0 and np.isfinite(width) and np.isfinite(horizon)):
        raise StudyError("The grid's width and horizon must be positive and finite.")
    if horizon / width > MOST_INTERVALS:
        raise StudyError(
            f"Intervals of width {width:g} up to {horizon:g} are {horizon / width:,.0f}, more "
            f"than {MOST_INTERVALS:,}.",
            [
                "Choose a larger width, or a nearer horizon. So many usually mean that the "
                "times are in another unit than the width, or are no times of follow-up: "
                "dates, for instance."
            ],
        )
    # A width far beyond the horizon is rounded to none: one interval holds everything.
    last = max(1, int(_interval_of(np.array([horizon]), width)[0]))
    edges = width * np.arange(1, last + 1, dtype=np.float64)
    edges[-1] = horizon
    return edges


def _interval_of(time: FloatArray, width: float) -> IntArray:
    """⌈t/Q⌉, where a ratio within rounding of a whole number is that number."""
    return ended_units(time, width).astype(np.int64)


class _Lookup:
    """The place of the first bound that a time does not exceed: numpy's searchsorted.

    Quicker for many times: time is cut into equal buckets, several to a bound, and a time is
    compared with the bounds of its own bucket alone.
    """

    def __init__(self, bounds: FloatArray) -> None:
        self.bounds, self.last = bounds, _BUCKETS * bounds.size
        with np.errstate(over="ignore"):
            self.scale = self.last / (bounds[-1] - bounds[0])

    def __call__(self, times: FloatArray) -> IntArray:
        if times.size < _MANY_TIMES or not np.isfinite(self.scale):
            return np.searchsorted(self.bounds, times)
        after = self._first.take(self._bucket(times)).astype(np.int64)
        beyond = np.append(self.bounds, np.inf)
        behind = np.flatnonzero(times > beyond.take(after))
        for _ in range(_BUCKETS):
            after[behind] += 1
            behind = behind[times[behind] > beyond[after[behind]]]
        # Where bounds crowd in one bucket.
        after[behind] = np.searchsorted(self.bounds, times[behind])
        return after

    def _bucket(self, times: FloatArray) -> IntArray:
        place = (times - self.bounds[0]) * self.scale
        np.clip(place, -1.0, self.last + 1.0, out=place)
        return np.asarray(place.astype(np.int64) + 1)

    @cached_property
    def _first(self) -> NDArray[np.int32]:
        """The first bound in each bucket, or in one after it."""
        many = np.bincount(self._bucket(self.bounds), minlength=self.last + 3)
        return (np.cumsum(many) - many).astype(np.int32)
