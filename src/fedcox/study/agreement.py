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
from fedcox.study.cells import (
    MOST_PIECES,
    TimeCells,
    cells_at,
    cells_of,
    end_of_time,
    unit_of_record,
    up_to_units,
)
from fedcox.study.fit_rows import RiskRow
from fedcox.study.plan import Plan
from fedcox.study.scale import check_patients, common_scale
from fedcox.survival.cohort import BoolArray, FloatArray
from fedcox.survival.event_pieces import (
    occupied,
    public_ends,
)
from fedcox.survival.spline_baseline import spline_basis
from fedcox.survival.time_grid import (
    MOST_INTERVALS,
    AnyGrid,
    Pieces,
    TimeGrid,
)

#: Under a smooth baseline pieces cost nothing, and are no more than steps of the curve.
_MOST_SMOOTH = 200
#: Between hospitals: as many pieces as have so many events, and no more than this.
_FEWEST_EVENTS, _MOST_BETWEEN = 10, 48


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


def _open_cells(plan: Plan, federation: Federation) -> tuple[ColumnSums, TimeCells]:
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
        unit = unit_of_record(found, replies[0] if at_events else None) if alone else found
    if not at_events:
        return sums, cells_of(plan, replies[0] if replies else None, unit)
    times, longest = replies
    horizon = end_of_time(plan, longest, unit)
    if unit is not None:
        times = times[up_to_units(times, unit) <= horizon * (1.0 + 1e-9)]
    if not times.size:
        raise _no_events(plan)
    return sums, cells_at(times, horizon, unit, every=plan.every_event)


def _hidden_cells(plan: Plan, federation: Federation) -> TimeCells:
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
    return cells_of(plan, end, unit)


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
        return MOST_PIECES, 1
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
