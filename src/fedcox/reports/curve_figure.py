"""Survival curves: the average patient, and how each covariate moves the curve.

A curve lives in a square of 1000 by 1000 units that the page stretches to any width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedcox.reports.axis import Tick, time_tick_marks, time_ticks
from fedcox.reports.covariate_groups import CovariateGroup, Member, covariate_groups
from fedcox.reports.interval_counts import IntervalCounts, interval_counts
from fedcox.reports.number_text import DASH, count_text, finite, percent_text, short_text
from fedcox.reports.shown_patients import chosen_values, foremost, middle_patient, words
from fedcox.study.fitted import FittedStudy, RiskRow
from fedcox.survival.cohort import FloatArray
from fedcox.survival.survival_curve import steps_reached

MOST_POINTS = 150
MOST_CURVES = 8
FEW_AT_RISK = 10


@dataclass(frozen=True)
class Curve:
    """One curve, its 95 % band, its median, and its survival at every tick of the time axis.

    Steps in grouped time, where nothing is known between the ends; smooth otherwise.
    """

    label: str
    path: str
    median: str
    at_ticks: tuple[str, ...]
    band: str = ""


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
    """Ticks from zero to the horizon, with patients and events over all centers.

    Counts stand at the times at which they are true, and nowhere else.
    """
    ticks, last = axis_times(fitted), _last(fitted.interval_ends)
    marks, unit = time_tick_marks(ticks, last), fitted.study.schema.time_unit
    counts = interval_counts(fitted)
    if counts is None:
        return TimeAxis(marks, unit)
    known = {row.time: row for row in _risk_rows(fitted, counts)}
    rows = [known.get(tick) for tick in ticks]
    return TimeAxis(
        ticks=marks,
        unit=unit,
        at_risk=tuple("" if row is None else count_text(row.at_risk) for row in rows),
        events=tuple("" if row is None else count_text(row.events) for row in rows),
        few_from=_few_from(counts, fitted.interval_ends),
    )


def axis_times(fitted: FittedStudy) -> tuple[float, ...]:
    """Where the axis has its ticks."""
    if fitted.risk_table:
        end = fitted.horizon * (1 + 1e-9)
        return tuple(row.time for row in fitted.risk_table if row.time <= end)
    return time_ticks(fitted.interval_ends)


def _risk_rows(fitted: FittedStudy, counts: IntervalCounts) -> Sequence[RiskRow]:
    """What is known of grouped time: at zero, and at those ticks where an interval ends."""
    if not fitted.grouped:
        return fitted.risk_table
    ends, happened = fitted.interval_ends, np.cumsum(counts.events)
    rows = [RiskRow(0.0, fitted.patients or 0, 0)]
    for tick in time_ticks(ends)[1:]:
        place = int(np.argmin(np.abs(ends - tick)))
        if np.isclose(ends[place], tick, rtol=1e-9) and place + 1 < ends.size:
            at_risk = counts.at_risk[place + 1]
            if at_risk == round(at_risk) and not fitted.study.grid.times:
                rows.append(RiskRow(tick, int(at_risk), int(happened[place])))
    return rows


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
    median = finite(float(fitted.median(x[None])[0]))
    shares = survival_at_times(fitted, x, axis_times(fitted))
    ends = fitted.interval_ends
    if fitted.grouped:
        path, band = step_path(ends, fitted.survival(x[None])[0]), ""
    else:
        path, band = _smooth(fitted, x)
    return Curve(
        label=label,
        path=path,
        median="not reached" if median is None else _time_text(fitted, median),
        at_ticks=tuple(DASH if np.isnan(share) else percent_text(share) for share in shares),
        band=band,
    )


def _time_text(fitted: FittedStudy, time: float) -> str:
    return f"{short_text(time)} {fitted.study.schema.time_unit}"


def survival_at_times(
    fitted: FittedStudy, x: FloatArray, times: Sequence[float]
) -> list[float]:
    """S at these times for one patient; NaN where grouped time does not know it."""
    if not fitted.grouped:
        return [float(share) for share in fitted.survival(x[None], times)[0]]
    ends, survival = fitted.interval_ends, fitted.survival(x[None])[0]
    shares = []
    for time in times:
        place = int(steps_reached(ends, np.array([time]))[0])
        # Between event times nothing happens; inside an interval something may have.
        known = place == 0 or np.isclose(ends[place - 1], time) or fitted.study.grid.times
        share = float(survival[place - 1]) if place else 1.0 if time == 0 else np.nan
        shares.append(share if known else np.nan)
    return shares


def _smooth(fitted: FittedStudy, x: FloatArray) -> tuple[str, str]:
    """The curve as a line through many points, and its band as an area."""
    last = _last(fitted.interval_ends)
    times = np.linspace(0.0, last, MOST_POINTS + 1)
    across = np.rint(1000 * times / last)
    line = _line(across, fitted.survival(x[None], times)[0])
    bounds = fitted.survival_band(x[None], times)
    if bounds is None or not all(np.isfinite(bound).all() for bound in bounds):
        return f"M{line}", ""
    low, high = (bound[0] for bound in bounds)
    return f"M{line}", f"M{_line(across, high)}L{_line(across[::-1], low[::-1])}Z"


def _line(across: FloatArray, survival: FloatArray) -> str:
    down = np.rint(1000 * (1 - survival))
    return "L".join(f"{x:.0f} {y:.0f}" for x, y in zip(across, down, strict=True))


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
