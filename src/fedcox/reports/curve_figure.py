"""Survival curves: the average patient, and how each covariate moves the curve.

A curve lives in a square of 1000 by 1000 units that the page stretches to any width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedcox.analysis.fitted import FittedStudy
from fedcox.reports.axis import Tick, time_tick_marks, time_ticks
from fedcox.reports.covariate_groups import CovariateGroup, Member, covariate_groups
from fedcox.reports.interval_counts import IntervalCounts, interval_counts
from fedcox.reports.number_text import count_text, finite, percent_text, short_text
from fedcox.reports.shown_patients import chosen_values, foremost, middle_patient, words
from fedcox.survival.cohort import FloatArray
from fedcox.survival.survival_curve import median_time

MOST_POINTS = 150
MOST_CURVES = 8
FEW_AT_RISK = 10


@dataclass(frozen=True)
class Curve:
    """One step curve, its median, and its survival at every tick of the time axis."""

    label: str
    path: str
    median: str
    at_ticks: tuple[str, ...]


@dataclass(frozen=True)
class CurvePanel:
    """Curves that share one pair of axes."""

    title: str
    curves: tuple[Curve, ...]
    remark: str = ""


@dataclass(frozen=True)
class TimeAxis:
    """The time axis all panels share, with the numbers at risk at its ticks.

    `few_from` is the place from which on fewer than ten patients are at risk. Where no counts
    are told there are none at the ticks either.
    """

    ticks: tuple[Tick, ...]
    unit: str
    at_risk: tuple[str, ...] = ()
    events: tuple[str, ...] = ()
    few_from: float | None = None


def time_axis(fitted: FittedStudy) -> TimeAxis:
    """Ticks from zero to the last interval's end, with patients and events over all centers."""
    ends = fitted.interval_ends
    ticks = time_ticks(ends)
    marks, unit = time_tick_marks(ticks, _last(ends)), fitted.study.schema.time_unit
    counts = interval_counts(fitted)
    if counts is None:
        return TimeAxis(marks, unit)
    happened = np.cumsum(counts.events)
    # The interval that begins at a tick, or contains it; none begins at the last end.
    following = np.searchsorted(ends, ticks, side="right")
    return TimeAxis(
        ticks=marks,
        unit=unit,
        at_risk=tuple(
            count_text(float(counts.at_risk[i])) if i < ends.size else "" for i in following
        ),
        events=tuple(count_text(int(happened[i - 1])) if i else "0" for i in following),
        few_from=_few_from(counts, ends),
    )


def _few_from(counts: IntervalCounts, ends: FloatArray) -> float | None:
    few = np.flatnonzero(counts.at_risk < FEW_AT_RISK)
    if not few.size:
        return None
    begin = float(ends[few[0] - 1]) if few[0] else 0.0
    return round(100 * begin / _last(ends), 2)


def average_panel(fitted: FittedStudy) -> CurvePanel:
    """The curve of a patient with every covariate at its mean, or in mid-range."""
    told = words(fitted)
    curve = _curve(fitted, told.label, middle_patient(fitted))
    return CurvePanel(told.title, (curve,), told.note)


def group_panels(fitted: FittedStudy) -> tuple[CurvePanel, ...]:
    """A panel for every category, and for the foremost numbers."""
    groups = [
        group
        for group in covariate_groups(fitted)
        if any(member.estimated for member in group.members)
    ]
    numbers = [group for group in groups if group.reference is None]
    panels = [_category_panel(fitted, group) for group in groups if group.reference is not None]
    return (*panels, *(_number_panel(fitted, group) for group in foremost(fitted, numbers)))


def _category_panel(fitted: FittedStudy, group: CovariateGroup) -> CurvePanel:
    estimated = [member for member in group.members if member.estimated]
    shown = {member.index for member in _most_common(fitted, estimated)[: MOST_CURVES - 1]}
    columns = [member.index for member in group.members]

    def at_level(member: Member | None) -> FloatArray:
        x = middle_patient(fitted)
        x[columns] = 0.0
        if member is not None:
            x[member.index] = 1.0
        return x

    curves = [_curve(fitted, f"{group.reference} (reference)", at_level(None))]
    for member in estimated:
        if member.index in shown:
            curves.append(_curve(fitted, str(member.level), at_level(member)))
    which = "most common" if fitted.guarantee is None else "first"
    return CurvePanel(group.name, tuple(curves), _left_out(group, len(estimated), which))


def _most_common(fitted: FittedStudy, members: list[Member]) -> list[Member]:
    """The most common levels first; in the study's order where nobody may know."""
    if fitted.guarantee is not None:
        return members
    return sorted(members, key=lambda member: -member.coefficient.mean)


def _left_out(group: CovariateGroup, estimated: int, which: str) -> str:
    remarks = []
    if estimated > MOST_CURVES - 1:
        rest = estimated - (MOST_CURVES - 1)
        remarks.append(f"The {MOST_CURVES - 1} {which} levels; {rest} more in the table.")
    silent = [str(member.level) for member in group.members if not member.estimated]
    if silent:
        remarks.append(f"Not estimable: {', '.join(silent)}.")
    return " ".join(remarks)


def _number_panel(fitted: FittedStudy, group: CovariateGroup) -> CurvePanel:
    curves = []
    for value, label in chosen_values(fitted, group):
        x = middle_patient(fitted)
        x[group.members[0].index] = value
        curves.append(_curve(fitted, label, x))
    return CurvePanel(group.name, tuple(curves))


def _curve(fitted: FittedStudy, label: str, x: FloatArray) -> Curve:
    ends, survival = fitted.interval_ends, fitted.survival_at(x)
    median = finite(float(median_time(survival[None, :], ends)[0]))
    unit = fitted.study.schema.time_unit
    reached = np.searchsorted(ends, time_ticks(ends), side="right")
    return Curve(
        label=label,
        path=step_path(ends, survival),
        median="not reached" if median is None else f"{short_text(median)} {unit}",
        at_ticks=tuple(percent_text(float(survival[i - 1]) if i else 1.0) for i in reached),
    )


def step_path(ends: FloatArray, survival: FloatArray) -> str:
    """An SVG path that falls at the interval ends; at most `MOST_POINTS` steps are drawn."""
    last = _last(ends)
    if ends.size > MOST_POINTS:
        bins = np.ceil(MOST_POINTS * ends / last)
        keep = np.append(np.flatnonzero(np.diff(bins)), ends.size - 1)
        ends, survival = ends[keep], survival[keep]
    across = np.rint(1000 * ends / last).astype(int).tolist()
    down = np.rint(1000 * (1 - survival)).astype(int).tolist()
    return "M0 0" + _steps(across, down)


def _steps(across: Sequence[int], down: Sequence[int]) -> str:
    parts = []
    x = y = 0
    for next_x, next_y in zip(across, down, strict=True):
        if next_y != y:
            parts.append(f"h{next_x - x}v{next_y - y}")
            x, y = next_x, next_y
    if x < 1000:
        parts.append(f"h{1000 - x}")
    return "".join(parts)


def _last(ends: FloatArray) -> float:
    return float(ends[-1]) if ends.size and ends[-1] > 0 else 1.0
