"""What the centers agree on before a fit: the time grid, the scale, and what can be estimated.

Two rounds: sums (and, if the study leaves it open, the grid's end); then counts and scatter.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from fedcox.analysis.plan import Plan
from fedcox.analysis.scale import check_patients, common_scale, joint_mean
from fedcox.errors import CohortError
from fedcox.federation.queries.covariate_scatter import CovariateScatter
from fedcox.federation.queries.covariate_sums import ColumnSums, CovariateSums
from fedcox.federation.queries.event_times import EventTimes
from fedcox.federation.queries.follow_up import LongestFollowUp
from fedcox.federation.queries.interval_counts import Counts, IntervalCounts
from fedcox.federation.query import AbstractQuery, Federation
from fedcox.federation.setting import Setting
from fedcox.survival.cohort import BoolArray, FloatArray
from fedcox.survival.time_grid import TimeGrid


@dataclass(frozen=True, eq=False)
class Agreement:
    """The setting of the fit, and the sums it came from."""

    setting: Setting
    counts: Counts
    by_center: dict[str, Counts]
    mean: FloatArray  # (columns,)
    spread: FloatArray  # (columns,)
    constant: BoolArray  # (columns,)
    aliased: BoolArray  # (columns,)
    correlation: FloatArray  # (kept columns, kept columns)


def agree(plan: Plan, federation: Federation) -> Agreement:
    """Ask for what the fit needs to know beforehand, in two rounds."""
    sums, grid = _means_and_grid(plan, federation)
    mean = joint_mean(sums)
    scatter, by_center = federation.ask_together(
        [CovariateScatter(mean)], each=[IntervalCounts(grid, plan.reading)]
    )
    counts: Counts = reduce(Counts.__add__, by_center.values())
    scale = common_scale(
        mean, scatter, sums.patients, columns=plan.columns, penalised=plan.ridge > 0
    )
    _check(counts, grid, plan)
    setting = Setting(grid, _informative(counts), plan.reading, plan.link, scale.scaling)
    return Agreement(
        setting,
        counts,
        by_center,
        mean,
        scale.spread,
        scale.constant,
        scale.aliased,
        scale.correlation,
    )


def _means_and_grid(plan: Plan, federation: Federation) -> tuple[ColumnSums, TimeGrid]:
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
