"""What the centers agree on before a fit: time, the scale, and what can be estimated.

Two rounds: sums (and, if the study leaves them open, the end of time and the unit of its
record); then counts and scatter. Where only sums over centers are seen, the counts come with
the sums, and what the study leaves open needs one round before.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from fedcox.errors import CohortError, StudyError
from fedcox.federation.queries.covariate_scatter import CovariateScatter
from fedcox.federation.queries.covariate_sums import ColumnSums, CovariateSums
from fedcox.federation.queries.event_times import EventTimes
from fedcox.federation.queries.follow_up import LongestFollowUp
from fedcox.federation.queries.interval_counts import Counts, IntervalCounts
from fedcox.federation.queries.last_interval import LastInterval
from fedcox.federation.queries.recorded_unit import FractionalTimes, RecordedUnit
from fedcox.federation.query import AbstractQuery, Federation
from fedcox.federation.setting import Setting
from fedcox.study.fitted import RiskRow
from fedcox.study.plan import Plan
from fedcox.study.scale import check_patients, common_scale
from fedcox.survival.cohort import BoolArray, FloatArray, IntArray
from fedcox.survival.event_pieces import (
    cut_by_events,
    join_empty,
    named_bounds,
    occupied,
    public_cells,
    public_ends,
    round_times,
)
from fedcox.survival.spline_baseline import spline_basis
from fedcox.survival.time_grid import (
    MOST_INTERVALS,
    AnyGrid,
    Pieces,
    TimeGrid,
    distinct,
    ended_units,
    whole_units,
)

#: Where nothing must be hidden, a piece for every event time up to so many.
_MOST_PIECES = 400
#: Under a smooth baseline pieces cost nothing, and are no more than steps of the curve.
_MOST_SMOOTH = 200
#: Between hospitals: as many pieces as have so many events, and no more than this.
_FEWEST_EVENTS, _MOST_BETWEEN = 10, 48
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
class Agreement:
    """The setting of the fit, and the sums it came from."""

    setting: Setting
    grid: AnyGrid  # as a reader sees it: event times whole, however ties are spread inside
    counts: Counts
    at_risk: FloatArray  # (fitted intervals,) what hazards divide by
    events: FloatArray  # (fitted intervals,)
    by_center: dict[str, Counts] | None  # None where only sums over centers are seen
    mean: FloatArray  # (columns,)
    spread: FloatArray  # (columns,)
    constant: BoolArray  # (columns,)
    aliased: BoolArray  # (columns,)
    correlation: FloatArray  # (kept columns, kept columns)
    cells: int  # pieces before any were joined
    named: bool  # whether the study names its pieces
    empty: int  # pieces without an event among those
    risk_table: tuple[RiskRow, ...]  # at round times; empty for grouped time
    filled: FloatArray  # (columns,) cells without a value, over all centers
    occupied: float = 1.0  # of cells, over how many would be if events came one by one
    tied: float = 0.0  # the part of the events on times at which many have it


@dataclass(frozen=True, eq=False)
class _Cells:
    """Cells to be counted on, from zero to the horizon, round times among their bounds.

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
    ) -> _Cells:
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


@dataclass(frozen=True, eq=False)
class _Time:
    """Agreed on together with the sums that came in the same rounds.

    `cells` counts the intervals before any were joined.
    """

    sums: ColumnSums
    scatter: FloatArray
    grid: AnyGrid
    counts: Counts
    by_center: dict[str, Counts] | None
    active: BoolArray
    cells: int
    named: bool = False
    empty: int = 0
    risk_table: tuple[RiskRow, ...] = ()
    basis: FloatArray | None = None
    units: Pieces | None = None  # the grid before ties were spread
    occupied: float = 1.0
    tied: float = 0.0


def agree(plan: Plan, federation: Federation) -> Agreement:
    """Ask for what the fit needs to know beforehand."""
    time = (_grouped if plan.link.grouped else _pieces)(plan, federation)
    sums = time.sums
    scale = common_scale(
        sums.mean, time.scatter, sums.patients, columns=plan.columns, penalised=plan.ridge > 0
    )
    setting = Setting(
        time.grid,
        time.active,
        plan.reading,
        plan.link,
        scale.scaling,
        time.basis,
    )
    counts, grid = time.counts, time.grid
    at_risk, events = counts.at_risk, counts.events
    if isinstance(grid, Pieces) and grid.tied is not None:
        at_risk, events = grid.tied.counts(counts.reached, counts.events)
    return Agreement(
        setting,
        grid if time.units is None else time.units,
        counts,
        at_risk[time.active],
        events[time.active],
        time.by_center,
        sums.mean,
        scale.spread,
        scale.constant,
        scale.aliased,
        scale.correlation,
        time.cells,
        time.named,
        time.empty,
        time.risk_table,
        sums.patients - sums.present,
        time.occupied,
        time.tied,
    )


# Pieces of constant hazard.


def _pieces(plan: Plan, federation: Federation) -> _Time:
    """Cut time where the events are: by counts on finer cells, which every center knows."""
    if federation.shows_centers:
        sums, cells = _open_cells(plan, federation)
        scatter, by_center = federation.ask_together(
            [CovariateScatter(sums.mean)], each=[IntervalCounts(cells.pieces, "include")]
        )
        counts = reduce(Counts.__add__, by_center.values())
    else:
        cells = _hidden_cells(plan, federation)
        sums, counts = federation.ask_together(
            [CovariateSums(), IntervalCounts(cells.pieces, "include")]
        )
        check_patients(sums)
        by_center = None
    if not counts.events.any():
        raise _no_events(plan)
    limits = _most_and_least(plan, federation, counts.events)
    single = plan.spline is None and not plan.few_pieces
    kept, event_times = cells.cut(counts, *limits, single=single)
    units = pieces = cells.pieces.joined(kept)
    joined = counts.joined(cells.pieces, kept, units)
    active, basis = joined.events > 0, None
    if event_times:
        pieces = units.with_ties(joined.events)
        active = np.asarray(pieces.ties) > 0
    if plan.spline is not None:
        # Smooth time counts from the first event to the horizon, events or not.
        active = np.arange(active.size) >= int(np.flatnonzero(active)[0])
        bounds = pieces.bounds[int(np.flatnonzero(active)[0]) :]
        basis = spline_basis(bounds, joined.events[active], plan.spline)
    if by_center is not None:
        by_center = {
            name: own.joined(cells.pieces, kept, units) for name, own in by_center.items()
        }
    else:
        scatter = federation.ask(CovariateScatter(sums.mean))
    return _Time(
        sums,
        scatter,
        pieces,
        joined,
        by_center,
        active,
        units.intervals if cells.named is None else cells.named.intervals,
        cells.named is not None,
        cells.empty(counts.events),
        cells.risk_table(counts),
        basis,
        units,
        1.0 if cells.at_events else occupied(counts.events, cells.pieces.widths),
        cells.tied(counts),
    )


def _open_cells(plan: Plan, federation: Federation) -> tuple[ColumnSums, _Cells]:
    """Where replies are seen: one round for the sums and all that the study leaves open."""
    at_events, alone = _at_events(plan, federation), _alone(plan, federation)
    questions: list[AbstractQuery[Any]] = [CovariateSums()]
    if at_events:
        questions.append(EventTimes(np.inf if plan.horizon is None else plan.horizon))
    if at_events or (plan.horizon is None and plan.edges is None):
        questions.append(LongestFollowUp())
    if plan.resolution is None:
        questions.append(RecordedUnit() if alone else FractionalTimes())
    sums, *replies = federation.ask_together(questions)
    check_patients(sums)
    unit = plan.resolution
    if unit is None:
        found = replies.pop().unit
        unit = _unit(found, replies[0] if at_events else None) if alone else found
    if not at_events:
        return sums, _cells(plan, replies[0] if replies else None, unit)
    times, longest = replies
    horizon = _end_of_time(plan, longest, unit)
    if unit is not None:
        times = times[_up_to_units(times, unit) <= horizon * (1.0 + 1e-9)]
    if not times.size:
        raise _no_events(plan)
    return sums, _cells_at(times, horizon, unit, every=plan.every_event)


def _end_of_time(plan: Plan, longest: float | None, unit: float | None) -> float:
    """Where the study ends time, down to a whole unit; or where follow-up does, up to one."""
    ends = [] if longest is None else [longest]
    if unit is not None:
        ends = [float(_up_to_units(np.array(end), unit)) for end in ends]
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


def _up_to_units(times: FloatArray, unit: float) -> FloatArray:
    """The ends of the units that these times are in."""
    return unit * ended_units(times, unit)


def _most_common(times: FloatArray, unit: float | None) -> float | None:
    """The unit of nearly all of many times, where that of all of them is finer."""
    some = FractionalTimes.of(times[:: -(times.size // -_SOME_TIMES)]).unit
    if some is None or (unit is not None and some <= unit):
        return unit
    return some if FractionalTimes.of(times).unit == some else unit


def _unit(recorded: float, times: FloatArray | None) -> float | None:
    """The unit of the record; a few whole numbers with a common factor are whole numbers."""
    few = times is not None and times.size < _ENOUGH_TIMES
    unit = 1.0 if few and recorded == round(recorded) else recorded
    found = None if recorded <= 0 else unit
    if times is None or times.size <= _MOST_PIECES:
        return found
    return _most_common(times, found)


def _hidden_cells(plan: Plan, federation: Federation) -> _Cells:
    """Where only sums are seen: at most one round for what the study leaves open."""
    if plan.every_event:
        raise StudyError(
            "Every distinct event time cannot be asked for where only sums are seen.",
            ['Leave times = "events" out of [grid], or secure_sums out of [privacy].'],
        )
    questions: list[AbstractQuery[Any]] = []
    longest = Pieces(np.append(0.0, public_ends(plan.longest)))
    if plan.horizon is None and plan.edges is None:
        questions.append(LastInterval(longest))
    if plan.resolution is None:
        questions.append(FractionalTimes())
    replies = federation.ask_together(questions) if questions else []
    unit = plan.resolution
    if unit is None:
        unit = replies.pop().unit
    end: float | None = None
    if replies:
        last = int(replies[0])
        if last == longest.intervals:
            raise _too_long(plan)
        end = float(longest.edges[max(last, 1) - 1])
    return _cells(plan, end, unit)


def cells_between(
    edges: tuple[float, ...] | None, width: float | None, horizon: float, unit: float | None
) -> _Cells:
    """The cells that the study names, or public ones to cut pieces from."""
    named = named_bounds(edges, width, horizon)
    return _Cells.of(
        public_cells(horizon, unit) if named is None else named, unit, named=named is not None
    )


def _cells(plan: Plan, longest: float | None, unit: float | None) -> _Cells:
    # Everyone at time zero: one cell, so that the message can be about events.
    end = _end_of_time(plan, longest, unit) or plan.width or unit or 1.0
    return cells_between(plan.edges, plan.width, end, unit)


def _cells_at(times: FloatArray, horizon: float, unit: float | None, *, every: bool) -> _Cells:
    """A cell for each event time: its unit, or where times are exact a moment before it.

    Of very many times, some are enough to cut from.
    """
    if times.size > _MOST_CELLS and not every:
        some = times[:: -(times.size // -_MOST_CELLS)]
        start = times[0] * (1.0 - _MOMENT)
        return _Cells.of(np.unique([0.0, start, *some, times[-1], horizon]), unit)
    if unit is not None:
        ends = np.unique(ended_units(times, unit))
        last = np.rint(horizon / unit)
        bounds = unit * np.unique(np.concatenate([[0.0], ends - 1.0, ends, [last]]))
    else:
        times = distinct(times)  # 0.1 + 0.2 is no later than 0.3
        starts = times - _MOMENT * np.diff(times, prepend=0.0)
        bounds = np.unique(np.concatenate([[0.0], starts, times, [horizon]]))
    return _Cells.of(bounds, unit, at_events=True)


def _alone(plan: Plan, federation: Federation) -> bool:
    """Whether nothing must be hidden, and nothing be cut as between hospitals."""
    return federation.in_one_process and not plan.few_pieces


def _at_events(plan: Plan, federation: Federation) -> bool:
    """Whether cells end at the event times, which are asked for."""
    if plan.every_event:
        return True
    named = plan.width is not None or plan.edges is not None
    return not named and _alone(plan, federation)


def _most_and_least(plan: Plan, federation: Federation, events: FloatArray) -> tuple[int, int]:
    """How many pieces at most, and events in each at least."""
    if plan.spline is not None and plan.pieces is None:
        return _MOST_SMOOTH, 1
    if plan.every_event:
        return events.size, 1
    if plan.pieces is not None:
        if plan.pieces > events.sum():
            raise StudyError(
                f"[grid] pieces = {plan.pieces} is more than there are events.",
                [
                    f"All centers together have {int(events.sum())}; a piece needs one at "
                    "least, and ten are better. Give fewer pieces, or leave them out."
                ],
            )
        return plan.pieces, 1
    if _alone(plan, federation):
        return _MOST_PIECES, 1
    return _MOST_BETWEEN, _FEWEST_EVENTS


# Grouped time.


def _grouped(plan: Plan, federation: Federation) -> _Time:
    """Intervals as the study names them, up to the end of follow-up."""
    by_center: dict[str, Counts] | None = None
    if federation.shows_centers:
        sums, grid = _open_means_and_grid(plan, federation)
        scatter, by_center = federation.ask_together(
            [CovariateScatter(sums.mean)], each=[IntervalCounts(grid, plan.reading)]
        )
        counts = reduce(Counts.__add__, by_center.values())
    else:
        grid = _hidden_grid(plan, federation)
        sums, counts = federation.ask_together(
            [CovariateSums(), IntervalCounts(grid, plan.reading)]
        )
        check_patients(sums)
        scatter = federation.ask(CovariateScatter(sums.mean))
    _check(counts, plan)
    # Who is censored inside an interval may not count there, and was there all the same.
    last = int(np.flatnonzero(counts.reached)[-1]) + 1 + (plan.reading == "exclude")
    last = min(last, grid.intervals)
    grid, counts = TimeGrid(grid.edges[:last], grid.width), counts.up_to(last)
    by_center = {name: own.up_to(last) for name, own in (by_center or {}).items()} or None
    return _Time(sums, scatter, grid, counts, by_center, _informative(counts), last)


def _hidden_grid(plan: Plan, federation: Federation) -> TimeGrid:
    if plan.width is None:
        raise StudyError(
            "Every distinct event time cannot be asked for where only sums are seen.",
            ['Give [grid] width instead of times = "events", or leave secure_sums out.'],
        )
    return TimeGrid.regular(plan.width, plan.horizon or _end(plan, plan.width, federation))


def _end(plan: Plan, width: float, federation: Federation) -> float:
    """The end of the last interval that anyone reaches, on a public grid with one to spare."""
    intervals = min(np.ceil(plan.longest / width) + 1, MOST_INTERVALS)
    public = TimeGrid.regular(width, width * intervals)
    last = federation.ask(LastInterval(public))
    if last == public.intervals:
        raise _too_long(plan)
    return width * max(last, 1)


def _open_means_and_grid(plan: Plan, federation: Federation) -> tuple[ColumnSums, TimeGrid]:
    question: AbstractQuery[Any] | None = None
    if plan.width is None:
        question = EventTimes(np.inf if plan.horizon is None else plan.horizon)
    elif plan.horizon is None:
        question = LongestFollowUp()
    questions = [CovariateSums()] if question is None else [CovariateSums(), question]
    sums, *reply = federation.ask_together(questions)
    check_patients(sums)
    if plan.width is None:
        if not reply[0].size:
            raise _no_events(plan)
        return sums, TimeGrid.at_events(reply[0])
    horizon = reply[0] if reply else plan.horizon
    # Everyone at time zero: one interval, so that the message can be about events.
    return sums, TimeGrid.regular(plan.width, horizon or plan.width)


def _informative(counts: Counts) -> BoolArray:
    """Intervals with an event and with someone who was at risk and did not have it."""
    return np.asarray((counts.events > 0) & (counts.at_risk - counts.events > 1e-9))


def _check(counts: Counts, plan: Plan) -> None:
    if not counts.events.any():
        raise _no_events(plan)
    if not _informative(counts).any():
        raise CohortError(
            "There is nothing to compare.",
            [
                "In every interval with an event, everyone at risk has the event. "
                'Choose narrower intervals, or censored_interval = "include".'
            ],
        )


def _no_events(plan: Plan) -> CohortError:
    horizon = plan.horizon if plan.edges is None else plan.edges[-1]
    if horizon is None:
        return CohortError(
            "No center has an event.",
            ["Check the study's event column and event_value against the files."],
        )
    return CohortError(
        f"No center has an event up to the horizon of {horizon:g}.",
        ["Choose a later horizon, or check the study's event column and event_value."],
    )


def _too_long(plan: Plan) -> StudyError:
    return StudyError(
        f"Follow-up reaches beyond {plan.longest:g}, the longest that was looked for.",
        ["Give [grid] horizon, or a larger longest in [privacy], in the unit of time."],
    )
