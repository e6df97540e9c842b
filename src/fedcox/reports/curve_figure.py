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
from fedcox.reports.number_text import count_text, finite, percent_text, short_text
from fedcox.survival.cohort import FloatArray
from fedcox.survival.survival_curve import median_time

MOST_POINTS = 150
MOST_CURVES = 8
MOST_NUMBERS = 4
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

    `few_from` is the place from which on fewer than ten patients are at risk.
    """

    ticks: tuple[Tick, ...]
    unit: str
    at_risk: tuple[str, ...]
    events: tuple[str, ...]
    few_from: float | None


def time_axis(fitted: FittedStudy) -> TimeAxis:
    """Ticks from zero to the last interval's end, with patients and events over all centers."""
    ends = fitted.interval_ends
    last = _last(ends)
    ticks = time_ticks(ends)
    at_risk = np.array([row.at_risk for row in fitted.baseline])
    events = np.cumsum([row.events for row in fitted.baseline])
    # The interval that begins at a tick, or contains it; none begins at the last end.
    following = np.searchsorted(ends, ticks, side="right")
    few = np.flatnonzero(at_risk < FEW_AT_RISK)
    few_from = None
    if few.size:
        few_from = round(100 * (float(ends[few[0] - 1]) if few[0] else 0.0) / last, 2)
    return TimeAxis(
        ticks=time_tick_marks(ticks, last),
        unit=fitted.study.schema.unit,
        at_risk=tuple(
            count_text(float(at_risk[i])) if i < at_risk.size else "" for i in following
        ),
        events=tuple(count_text(int(events[i - 1])) if i else "0" for i in following),
        few_from=few_from,
    )


def average_panel(fitted: FittedStudy) -> CurvePanel:
    """The curve of a patient with every covariate at its mean."""
    curve = _curve(fitted, "every covariate at its mean", fitted.typical)
    return CurvePanel("The average patient", (curve,))


def group_panels(fitted: FittedStudy) -> tuple[CurvePanel, ...]:
    """A panel for every category, and for the numbers with the smallest p-values."""
    groups = [
        group
        for group in covariate_groups(fitted)
        if any(member.estimated for member in group.members)
    ]
    numbers = [group for group in groups if group.reference is None]
    foremost = sorted(numbers, key=_p_of)[:MOST_NUMBERS]
    panels = [_category_panel(fitted, group) for group in groups if group.reference is not None]
    return (*panels, *(_number_panel(fitted, group) for group in foremost))


def _p_of(group: CovariateGroup) -> float:
    p = finite(group.members[0].coefficient.p)
    return 1.0 if p is None else p


def _category_panel(fitted: FittedStudy, group: CovariateGroup) -> CurvePanel:
    estimated = [member for member in group.members if member.estimated]
    common = sorted(estimated, key=lambda member: -member.coefficient.mean)
    shown = {member.index for member in common[: MOST_CURVES - 1]}
    columns = [member.index for member in group.members]

    def at_level(member: Member | None) -> FloatArray:
        x = fitted.typical
        x[columns] = 0.0
        if member is not None:
            x[member.index] = 1.0
        return x

    curves = [_curve(fitted, f"{group.reference} (reference)", at_level(None))]
    for member in estimated:
        if member.index in shown:
            curves.append(_curve(fitted, str(member.level), at_level(member)))
    return CurvePanel(group.name, tuple(curves), _left_out(group, len(estimated)))


def _left_out(group: CovariateGroup, estimated: int) -> str:
    remarks = []
    if estimated > MOST_CURVES - 1:
        rest = estimated - (MOST_CURVES - 1)
        remarks.append(f"The {MOST_CURVES - 1} most common levels; {rest} more in the table.")
    silent = [str(member.level) for member in group.members if not member.estimated]
    if silent:
        remarks.append(f"Not estimable: {', '.join(silent)}.")
    return " ".join(remarks)


def _number_panel(fitted: FittedStudy, group: CovariateGroup) -> CurvePanel:
    member = group.members[0]
    mean, sd = member.coefficient.mean, member.coefficient.sd
    if _takes_two_values(mean, sd, fitted.patients):
        values = [(0.0, "0"), (1.0, "1")]
    else:
        low = mean - sd if group.minimum is None else max(group.minimum, mean - sd)
        high = mean + sd if group.maximum is None else min(group.maximum, mean + sd)
        values = [
            (low, f"{short_text(low, 3)} (mean − sd)"),
            (mean, f"{short_text(mean, 3)} (mean)"),
            (high, f"{short_text(high, 3)} (mean + sd)"),
        ]
    curves = []
    for value, label in values:
        x = fitted.typical
        x[member.index] = value
        curves.append(_curve(fitted, label, x))
    return CurvePanel(group.name, tuple(curves))


def _takes_two_values(mean: float, sd: float, patients: int) -> bool:
    """Whether a number is an indicator: only zeros and ones have this spread at their mean.

    A curve at "0.6 minus one sd" of an indicator would describe nobody.
    """
    if not 0 < mean < 1:
        return False
    variance = mean * (1 - mean)
    return abs(sd**2 - variance) <= variance * (1e-9 + 1.5 / max(1, patients - 1))


def _curve(fitted: FittedStudy, label: str, x: FloatArray) -> Curve:
    ends, survival = fitted.interval_ends, fitted.survival_at(x)
    median = finite(float(median_time(survival[None, :], ends)[0]))
    unit = fitted.study.schema.unit
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
