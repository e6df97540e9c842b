"""The forest plot: where each ratio and its interval lie on a logarithmic axis."""

from __future__ import annotations

from dataclasses import dataclass

from fedcox.analysis.fitted import Coefficient, FittedStudy
from fedcox.reports.axis import Tick, ratio_axis
from fedcox.reports.number_text import finite


@dataclass(frozen=True)
class ForestBar:
    """A point with its interval in per cent of the axis; `cut` tells which ends go beyond."""

    point: float
    low: float
    high: float
    cut_low: bool
    cut_high: bool


@dataclass(frozen=True)
class ForestFigure:
    """One bar per column of the design matrix; None where there is no ratio."""

    ticks: tuple[Tick, ...]
    bars: tuple[ForestBar | None, ...]


def forest_figure(fitted: FittedStudy) -> ForestFigure:
    """The bars in the order of the coefficients, on one axis with one at its centre."""
    rows = fitted.coefficients
    axis = ratio_axis([bound for row in rows for bound in (row.ratio_low, row.ratio_high)])

    def bar(row: Coefficient) -> ForestBar | None:
        point, low = finite(row.ratio), finite(row.ratio_low)
        if point is None or low is None or row.ratio_high is None:
            return None
        ends = axis.place(low), axis.place(row.ratio_high)
        return ForestBar(axis.place(point), *ends, ends[0] <= 0, ends[1] >= 100)

    return ForestFigure(axis.ticks, tuple(bar(row) for row in rows))
