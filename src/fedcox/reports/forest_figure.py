"""The forest plot: where each ratio and its interval lie on a logarithmic axis.

`forest_cell` in `templates/figures.html.j2` draws it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from fedcox.reports.number_text import finite, ratio_text
from fedcox.reports.plot import Tick
from fedcox.study.fit_rows import Coefficient
from fedcox.study.fitted import FittedStudy
from fedcox.survival.event_pieces import nice_step

SMALLEST_REACH = math.log(1.02)
LARGEST_REACH = math.log(100)


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


@dataclass(frozen=True)
class RatioAxis:
    """A logarithmic axis with one at its centre; `reach` is its half width in logs."""

    reach: float
    ticks: tuple[Tick, ...]

    def place(self, ratio: float) -> float:
        """Per cent of the width from the left, held within the axis."""
        log_ratio = math.log(ratio) if ratio > 0 else -math.inf
        return round(min(100.0, max(0.0, 50 + 50 * log_ratio / self.reach)), 2)


def ratio_axis(points: Sequence[float], intervals: Sequence[tuple[float, float]]) -> RatioAxis:
    """An axis that holds every point, and the intervals but for a few far longer than most."""
    spans = sorted(max(_distance(low), _distance(high)) for low, high in intervals)
    usual = spans[len(spans) // 2] if spans else math.log(2)
    farthest = max((_distance(point) for point in points), default=0.0)
    wanted = min(max(spans, default=usual), max(2 * usual, 1.25 * farthest))
    reach = min(LARGEST_REACH, max(SMALLEST_REACH, 1.06 * wanted))
    axis = RatioAxis(reach, ())
    return RatioAxis(
        reach,
        tuple(
            Tick(axis.place(ratio), ratio_text(ratio, 4).rstrip("0").rstrip("."))
            for ratio in _ratio_ticks(reach)
        ),
    )


def _distance(ratio: float) -> float:
    """How far a ratio is from one, in logs, up to the largest axis there is."""
    return min(2 * LARGEST_REACH, abs(math.log(ratio)) if ratio > 0 else math.inf)


def _ratio_ticks(reach: float) -> list[float]:
    if reach < math.log(3):
        low, high = math.exp(-reach), math.exp(reach)
        step = _unit_fraction(nice_step(high - low, 6))
        first = math.ceil((low - 1) / step)
        return [1 + step * i for i in range(first, math.floor((high - 1) / step) + 1)]
    for upward in ((2.0, 5.0, 10.0, 20.0, 50.0), (2.0, 10.0, 50.0), (10.0, 100.0)):
        within = [ratio for ratio in upward if math.log(ratio) <= reach * 0.97]
        # Labels need a tenth of the axis each.
        if math.log(upward[0]) > 0.2 * reach and len(within) <= 3:
            return [*(1 / ratio for ratio in reversed(within)), 1.0, *within]
    return [0.1, 1.0, 10.0]


def _unit_fraction(step: float) -> float:
    """The same step, or the next larger one that meets one exactly: 0.2 does, 0.3 would not."""
    return 1 / max(1, math.floor(1 / step + 1e-9))
