"""Fine cells of time that events are counted on, and the pieces that are cut from them.

The bounds are public or the study's own, or where nothing must be hidden the event times.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedcox.errors import StudyError
from fedcox.federation.queries.interval_counts import Counts
from fedcox.federation.queries.recorded_unit import FractionalTimes
from fedcox.study.fit_rows import RiskRow
from fedcox.study.plan import Plan
from fedcox.survival.cohort import FloatArray, IntArray
from fedcox.survival.event_pieces import (
    cut_by_events,
    join_empty,
    named_bounds,
    public_cells,
    round_times,
)
from fedcox.survival.time_grid import (
    Pieces,
    distinct,
    ended_units,
    whole_units,
)

#: Where nothing must be hidden, a piece for every event time up to so many.
MOST_PIECES = 400
#: How long before an exact event time its piece begins, beside the time since the last.
_MOMENT = 1e-3
#: Pieces are cut from cells, which need not be more than so many.
_MOST_CELLS = 10_000
#: So many distinct times that are all multiples of some number were recorded in that unit.
_ENOUGH_TIMES = 10
#: Events are tied that are within so few units. So many are more than two patients who happen
#: to be the last, and such a part of those at risk leaves the ratios to how ties are treated.
_NARROW, _MANY_TIES, MANY_OF_THEM = 5.0, 5, 0.2
#: Whether nearly all times are in some unit is seen on so many first.
_SOME_TIMES = 1000


@dataclass(frozen=True, eq=False)
class TimeCells:
    """TimeCells to be counted on, from zero to the horizon, round times among their bounds.

    `named` are the bounds that the study names; with none those in the `places` may bound a
    piece: all but round times, which depend on what a unit of time is called. Where
    `at_events`, each event time has a cell of its own.
    """

    pieces: Pieces
    places: IntArray
    named: Pieces | None = None
    at_events: bool = False

    @classmethod
    def of(
        cls,
        bounds: FloatArray,
        unit: float | None,
        *,
        named: bool = False,
        at_events: bool = False,
    ) -> TimeCells:
        own = base = Pieces.on_units(bounds, unit)
        if named:  # so that the end of follow-up is seen, which may come long before theirs
            public = np.union1d(own.bounds, public_cells(own.horizon, unit))
            base = Pieces.on_units(distinct(public), unit)
            own = Pieces(base.bounds[_nearest(base.bounds, own.bounds)], unit)
        times = round_times(own.horizon)
        times = times[np.abs(times - base.bounds[_nearest(base.bounds, times)]) > 1e-9 * times]
        finer = Pieces.on_units(np.union1d(base.bounds, times), unit)
        places = np.searchsorted(finer.bounds, base.bounds)
        return cls(finer, places, own if named else None, at_events)

    def cut(
        self, counts: Counts, most: int, least: int, *, single: bool
    ) -> tuple[IntArray, bool]:
        """Which bounds remain, by their places, and whether pieces are event times.

        Those without an event stand before the first, after the last, or, with a `single`
        piece for every event time, between two: nothing is known to happen there.
        """
        events, happened = counts.events, np.flatnonzero(counts.events)
        ends = [0, self.end(counts)]
        if self.named is not None:
            places = np.searchsorted(self.pieces.bounds, self.named.bounds)
            kept = places[join_empty(self._by_name(events))]
            kept = np.union1d(kept[kept < ends[1]], ends)
        elif self.at_events and happened.size <= most and single:
            bounds = np.zeros(events.size + 1, dtype=np.bool_)
            bounds[ends] = bounds[happened] = bounds[happened + 1] = True
            return np.flatnonzero(bounds), True
        else:
            own = np.add.reduceat(events, self.places[:-1])
            pieces = self.places[cut_by_events(own, most=most, least=least)]
            kept = np.union1d(ends, pieces)
        return kept, False

    def end(self, counts: Counts) -> int:
        """The place of the bound that follow-up ends at: of time after it nothing is known."""
        last = int(np.flatnonzero(counts.reached)[-1]) + 1
        return int(self.places[np.searchsorted(self.places, last)])

    def tied(self, counts: Counts) -> float:
        """The part of the events on times, a few units at most, at which many have it."""
        events, pieces = counts.events, self.pieces
        many = (events >= _MANY_TIES) & (events > MANY_OF_THEM * counts.reached)
        if not self.at_events:
            many &= pieces.widths <= _NARROW * (pieces.unit or 0.0)
        return float(events[many].sum() / events.sum())

    def empty(self, events: FloatArray) -> int:
        """How many pieces that the study names have no event."""
        if self.named is None:
            return 0
        return int(np.count_nonzero(self._by_name(events) == 0))

    def _by_name(self, events: FloatArray) -> FloatArray:
        if self.named is None:
            return events
        places = np.searchsorted(self.pieces.bounds, self.named.bounds)
        return np.asarray(np.add.reduceat(events, places[:-1]))

    def risk_table(self, counts: Counts) -> tuple[RiskRow, ...]:
        """Who is at risk after each round time, and how many events there were by then."""
        bounds, unit = self.pieces.bounds, self.pieces.unit
        times = round_times(float(bounds[self.end(counts)]))
        if unit is not None:
            times = np.unique(whole_units(times, unit)) * unit
        happened = np.append(0.0, np.cumsum(counts.events))
        reached = np.append(counts.reached, float(counts.passed))
        reached[0] = counts.patients
        return tuple(
            RiskRow(float(bounds[k]), int(reached[k]), int(happened[k]))
            for k in np.unique(np.searchsorted(bounds, times * (1.0 - 1e-9))).tolist()
        )


def end_of_time(plan: Plan, longest: float | None, unit: float | None) -> float:
    """Where the study ends time, down to a whole unit; or where follow-up does, up to one."""
    ends = [] if longest is None else [longest]
    if unit is not None:
        ends = [float(up_to_units(np.array(end), unit)) for end in ends]
    if plan.horizon is not None:
        whole = plan.horizon
        if unit is not None:
            whole = unit * float(whole_units(np.array(plan.horizon), unit))
        ends.append(whole)
    end = min(ends) if plan.edges is None else plan.edges[-1]
    first = end if longest is None or plan.resolution is None else min(end, longest)
    if unit is not None and first < unit * (1.0 - 1e-6) and longest != 0:
        named = plan.horizon if plan.edges is None else plan.edges[-1]
        raise StudyError(
            "Time would end "
            + ("with follow-up" if named is None else f"at {named:g}")
            + ", inside the first unit of the record.",
            [
                f"Times are recorded in units of {unit:g}"
                + ("" if plan.resolution is not None else ", as far as event times tell")
                + ". Choose a later [grid] horizon, or name [outcome] resolution."
            ],
        )
    return end


def _nearest(bounds: FloatArray, times: FloatArray) -> IntArray:
    """The place of the bound that is nearest to each time."""
    after = np.clip(np.searchsorted(bounds, times), 1, bounds.size - 1)
    return after - (times - bounds[after - 1] < bounds[after] - times)


def up_to_units(times: FloatArray, unit: float) -> FloatArray:
    """The ends of the units that these times are in."""
    return unit * ended_units(times, unit)


def _most_common(times: FloatArray, unit: float | None) -> float | None:
    """The unit of nearly all of many times, where that of all of them is finer."""
    some = FractionalTimes.of(times[:: -(times.size // -_SOME_TIMES)]).unit
    if some is None or (unit is not None and some <= unit):
        return unit
    return some if FractionalTimes.of(times).unit == some else unit


def unit_of_record(recorded: float, times: FloatArray | None) -> float | None:
    """The unit of the record; a few whole numbers with a common factor are whole numbers."""
    few = times is not None and times.size < _ENOUGH_TIMES
    unit = 1.0 if few and recorded == round(recorded) else recorded
    found = None if recorded <= 0 else unit
    if times is None or times.size <= MOST_PIECES:
        return found
    return _most_common(times, found)


def cells_between(
    edges: tuple[float, ...] | None, width: float | None, horizon: float, unit: float | None
) -> TimeCells:
    """The cells that the study names, or public ones to cut pieces from."""
    named = named_bounds(edges, width, horizon)
    return TimeCells.of(
        public_cells(horizon, unit) if named is None else named, unit, named=named is not None
    )


def cells_of(plan: Plan, longest: float | None, unit: float | None) -> TimeCells:
    """The cells of a plan whose event times are not asked for."""
    # Everyone at time zero: one cell, so that the message can be about events.
    end = end_of_time(plan, longest, unit) or plan.width or unit or 1.0
    return cells_between(plan.edges, plan.width, end, unit)


def cells_at(
    times: FloatArray, horizon: float, unit: float | None, *, every: bool
) -> TimeCells:
    """A cell for each event time: its unit, or where times are exact a moment before it.

    Of very many times, some are enough to cut from.
    """
    if times.size > _MOST_CELLS and not every:
        some = times[:: -(times.size // -_MOST_CELLS)]
        start = times[0] * (1.0 - _MOMENT)
        return TimeCells.of(np.unique([0.0, start, *some, times[-1], horizon]), unit)
    if unit is not None:
        ends = np.unique(ended_units(times, unit))
        last = np.rint(horizon / unit)
        bounds = unit * np.unique(np.concatenate([[0.0], ends - 1.0, ends, [last]]))
    else:
        times = distinct(times)  # 0.1 + 0.2 is no later than 0.3
        starts = times - _MOMENT * np.diff(times, prepend=0.0)
        bounds = np.unique(np.concatenate([[0.0], starts, times, [horizon]]))
    return TimeCells.of(bounds, unit, at_events=True)
