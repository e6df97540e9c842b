"""What the centers agree on before a fit: the time grid, the scale, and what can be estimated.

Two rounds: sums (and, if the study leaves it open, the grid's end); then counts and scatter.
Where only sums over centers are seen, the first round also brings the life table by which
intervals are merged, and a study without a horizon needs one round before it to find the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from fedcox.analysis.plan import Plan
from fedcox.analysis.scale import check_patients, common_scale
from fedcox.errors import CohortError, StudyError
from fedcox.federation.evidence import Evidence
from fedcox.federation.queries.covariate_scatter import CovariateScatter
from fedcox.federation.queries.covariate_sums import ColumnSums, CovariateSums
from fedcox.federation.queries.event_times import EventTimes
from fedcox.federation.queries.follow_up import LongestFollowUp
from fedcox.federation.queries.interval_counts import Counts, IntervalCounts
from fedcox.federation.queries.last_interval import LastInterval
from fedcox.federation.query import AbstractQuery, Federation
from fedcox.federation.setting import Setting
from fedcox.survival.cohort import BoolArray, FloatArray
from fedcox.survival.interval_merging import leavers_within, merged_ends, merged_leavers
from fedcox.survival.time_grid import TimeGrid


@dataclass(frozen=True, eq=False)
class Agreement:
    """The setting of the fit, and the sums it came from."""

    setting: Setting
    counts: Counts
    by_center: dict[str, Counts] | None  # None where only sums over centers are seen
    mean: FloatArray  # (columns,)
    spread: FloatArray  # (columns,)
    constant: BoolArray  # (columns,)
    aliased: BoolArray  # (columns,)
    correlation: FloatArray  # (kept columns, kept columns)
    filled: FloatArray  # (columns,) cells without a value, over all centers


def agree(plan: Plan, federation: Federation) -> Agreement:
    """Ask for what the fit needs to know beforehand."""
    sums, grid, life = _means_and_grid(plan, federation)
    evidence = None if life is None else federation.evidence()
    if life is not None:
        ends = merged_ends(
            life.patients,
            life.at_risk,
            life.events,
            plan.reading,
            smallest_group=plan.smallest_group,
            smallest_tail=plan.smallest_tail,
        )
        grid = grid.merged(ends)
    mean = sums.mean
    scatter, counts, by_center = _scatter_and_counts(plan, federation, sums, grid, evidence)
    scale = common_scale(
        mean, scatter, sums.patients, columns=plan.columns, penalised=plan.ridge > 0
    )
    _check(counts, grid, plan)
    active = _informative(counts)
    leavers = present = None
    if life is not None:
        present = sums.present[scale.scaling.keep]
        parts = life.patients, life.at_risk, life.events
        leavers = leavers_within(active, merged_leavers(*parts, ends, plan.reading))
    setting = Setting(
        grid, active, plan.reading, plan.link, scale.scaling, leavers, evidence, present
    )
    return Agreement(
        setting,
        counts,
        by_center,
        mean,
        scale.spread,
        scale.constant,
        scale.aliased,
        scale.correlation,
        sums.patients - sums.present,
    )


def _means_and_grid(
    plan: Plan, federation: Federation
) -> tuple[ColumnSums, TimeGrid, Counts | None]:
    """Sums of the columns, the grid, and its life table where intervals are to be merged."""
    if federation.shows_centers:
        sums, grid = _open_means_and_grid(plan, federation)
        merging = plan.smallest_group > 1 or plan.smallest_tail > 1
        life = federation.ask(IntervalCounts(grid, "include")) if merging else None
        return sums, grid, life
    if plan.width is None:
        raise StudyError(
            "Every distinct event time cannot be asked for where only sums are seen.",
            ['Give [grid] width instead of times = "events", or leave secure_sums out.'],
        )
    grid = TimeGrid.regular(plan.width, plan.horizon or _end(plan, plan.width, federation))
    sums, life = federation.ask_together([CovariateSums(), IntervalCounts(grid, "include")])
    check_patients(sums)
    return sums, grid, life


def _end(plan: Plan, width: float, federation: Federation) -> float:
    """The end of the last interval that anyone reaches, on a public grid with one to spare."""
    public = TimeGrid.regular(width, width * (np.ceil(plan.longest / width) + 1))
    last = federation.ask(LastInterval(public))
    if last == public.intervals:
        raise StudyError(
            f"Follow-up reaches beyond {plan.longest:g}, the longest that was looked for.",
            ["Give [grid] horizon, or a larger longest in [privacy], in the unit of time."],
        )
    return width * max(last, 1)


def _scatter_and_counts(
    plan: Plan,
    federation: Federation,
    sums: ColumnSums,
    grid: TimeGrid,
    evidence: Evidence | None,
) -> tuple[FloatArray, Counts, dict[str, Counts] | None]:
    """One round; counts of every center where they can be seen."""
    mean, counts = sums.mean, IntervalCounts(grid, plan.reading)
    if not federation.shows_centers:
        scatter = CovariateScatter(mean, sums.present, evidence)
        return (*federation.ask_together([scatter, counts]), None)
    found, by_center = federation.ask_together([CovariateScatter(mean)], each=[counts])
    return found, reduce(Counts.__add__, by_center.values()), by_center


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


def _check(counts: Counts, grid: TimeGrid, plan: Plan) -> None:
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
    if plan.horizon is None:
        return CohortError(
            "No center has an event.",
            ["Check the study's event column and event_value against the files."],
        )
    return CohortError(
        f"No center has an event up to the horizon of {plan.horizon:g}.",
        ["Choose a later horizon, or check the study's event column and event_value."],
    )
