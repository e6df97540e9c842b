"""The forest plot: where each ratio and its interval lie on a logarithmic axis."""

from __future__ import annotations

from dataclasses import dataclass

from fedcox.reports.axis import RatioAxis, Tick, ratio_axis
from fedcox.reports.number_text import finite
from fedcox.study.fit_rows import Coefficient
from fedcox.study.fitted import FittedStudy


@dataclass(frozen=True)
class ForestInterval:
    """An interval in per cent of the axis; `cut` tells which ends go beyond."""

    low: float
    high: float
    cut_low: bool
    cut_high: bool


@dataclass(frozen=True)
class ForestBar:
    """A point in per cent of the axis, and its interval where there is one."""

    point: float
    interval: ForestInterval | None


@dataclass(frozen=True)
class ForestFigure:
    """One bar per column of the design matrix; None where there is no ratio."""

    ticks: tuple[Tick, ...]
    bars: tuple[ForestBar | None, ...]


def forest_figure(fitted: FittedStudy) -> ForestFigure:
    """The bars in the order of the coefficients, on one axis with one at its centre."""
    rows = fitted.coefficients
    drawn = [row for row in rows if not row.note]
    points = [row.ratio for row in drawn if row.ratio is not None]
    intervals = [row.interval for row in drawn if row.interval is not None]
    # Without any interval the axis has to hold the points alone.
    axis = ratio_axis(points, intervals or [(point, point) for point in points])

    def bar(row: Coefficient) -> ForestBar | None:
        point = finite(row.ratio)
        if row.note or point is None:
            return None
        return ForestBar(axis.place(point), _interval(row, axis))

    return ForestFigure(axis.ticks, tuple(bar(row) for row in rows))


def _interval(row: Coefficient, axis: RatioAxis) -> ForestInterval | None:
    if row.interval is None:
        return None
    low, high = (axis.place(bound) for bound in row.interval)
    return ForestInterval(low, high, low <= 0, high >= 100)
