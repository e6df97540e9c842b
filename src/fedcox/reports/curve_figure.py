"""Survival curves: the average patient, and how each covariate moves the curve.

A curve lives in a square of 1000 by 1000 units that the page stretches to any width.

Under differential privacy means and deviations are those of noisy sums, or come from the ranges
in the study. Noise may put them where nobody can be, so that they are held within the ranges,
and categories stand at their reference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedcox.reports.counts_figure import IntervalTotals, interval_totals
from fedcox.reports.number_text import DASH, count_text, finite, percent_text, short_text
from fedcox.reports.plot import Tick, time_tick_marks, time_ticks
from fedcox.reports.ratio_table import CovariateGroup, Member, covariate_groups
from fedcox.study.fit_rows import RiskRow
from fedcox.study.fitted import FittedStudy
from fedcox.survival.cohort import FloatArray
from fedcox.survival.survival_curve import steps_reached

MOST_POINTS = 150
MOST_CURVES = 8
FEW_AT_RISK = 10
MOST_NUMBERS = 4


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
    counts = interval_totals(fitted)
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


def _risk_rows(fitted: FittedStudy, counts: IntervalTotals) -> Sequence[RiskRow]:
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


def _few_from(counts: IntervalTotals, ends: FloatArray) -> float | None:
    few = np.flatnonzero(counts.at_risk < FEW_AT_RISK)
    if not few.size:
        return None
    begin = float(ends[few[0] - 1]) if few[0] else 0.0
    return round(100 * begin / _last(ends), 2)


def average_panel(fitted: FittedStudy) -> CurvePanel:
    """The curve of a patient with every covariate at its mean, or in mid-range."""
    text = words(fitted)
    curve = _curve(fitted, text.label, middle_patient(fitted))
    return CurvePanel(text.title, (curve,), text.note)


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


@dataclass(frozen=True)
class Words:
    """How a page names the patient in the middle, and which panels it shows."""

    title: str
    label: str
    note: str
    panels: str


_AT_MEANS = Words(
    title="The average patient",
    label="every covariate at its mean",
    note="Every covariate at its mean over all centers.",
    panels="All other covariates at their means. Every category, and the numbers with the "
    "smallest p-values.",
)
_NEAR_MEANS = Words(
    title="A patient in the middle",
    label="numbers in the middle, categories at the reference",
    note="Every number near its mean, as far as noisy sums or else the range in the study tell "
    "it, and every category at its reference. The curve carries noise, too.",
    panels="All other covariates as in the curve above. Every category, and the numbers that "
    "move the curve most, in the middle and about one standard deviation to either side.",
)


def words(fitted: FittedStudy) -> Words:
    """What to say of the patient in the middle."""
    return _AT_MEANS if fitted.guarantee is None else _NEAR_MEANS


def middle_patient(fitted: FittedStudy) -> FloatArray:
    """The encoded covariates of the patient whom all curves start from, (columns,)."""
    x = fitted.typical
    if fitted.guarantee is None:
        return x
    for group in covariate_groups(fitted):
        for member in group.members:
            x[member.index] = 0.0 if group.reference else group.within(x[member.index])
    return x


def foremost(fitted: FittedStudy, numbers: Sequence[CovariateGroup]) -> list[CovariateGroup]:
    """The few numbers that get a panel of their own, the clearest or strongest first."""
    key = _p_of if fitted.inferred else _weakness
    return sorted(numbers, key=key)[:MOST_NUMBERS]


def _p_of(group: CovariateGroup) -> float:
    p = finite(group.members[0].coefficient.p)
    return 1.0 if p is None else p


def _weakness(group: CovariateGroup) -> float:
    row = group.members[0].coefficient
    return -abs(row.coef or 0.0) * row.sd


def chosen_values(fitted: FittedStudy, group: CovariateGroup) -> list[tuple[float, str]]:
    """Values of a number to draw curves at, each with its label."""
    if fitted.guarantee is None:
        return _around_mean(group, fitted.patients or 0)
    if (group.minimum, group.maximum) == (0.0, 1.0):
        return [(0.0, "0"), (1.0, "1")]
    mean, sd = group.members[0].coefficient.mean, group.members[0].coefficient.sd
    values = sorted({group.within(value) for value in (mean - sd, mean, mean + sd)})
    return [(value, short_text(value, 3)) for value in values]


def _around_mean(group: CovariateGroup, patients: int) -> list[tuple[float, str]]:
    mean, sd = group.members[0].coefficient.mean, group.members[0].coefficient.sd
    if _takes_two_values(mean, sd, patients):
        return [(0.0, "0"), (1.0, "1")]
    low, high = group.within(mean - sd), group.within(mean + sd)
    return [
        (low, f"{short_text(low, 3)} (mean − sd)"),
        (mean, f"{short_text(mean, 3)} (mean)"),
        (high, f"{short_text(high, 3)} (mean + sd)"),
    ]


def _takes_two_values(mean: float, sd: float, patients: int) -> bool:
    """Whether a number is an indicator: only zeros and ones have this spread at their mean.

    A curve at "0.6 minus one sd" of an indicator would describe nobody.
    """
    if not 0 < mean < 1:
        return False
    variance = mean * (1 - mean)
    return abs(sd**2 - variance) <= variance * (1e-9 + 1.5 / max(1, patients - 1))
