"""Intervals that everyone passes, spoken for by fewer points.

What a patient costs in an interval is a smooth function of its α. Where the α of many intervals
lie close together, values at a few Chebyshev points between them give those at every one of
them, to thirteen digits, and sums over cells need no more cells than there are points.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from fedcox.survival.cohort import FloatArray
from fedcox.survival.link import AbstractLink

#: Half the range of α that 1, 2, 3, … points speak for: measured where the hazard bends most,
#: for f'' of the logit link. Others are compared with it by their `smoothness`.
_REACH = np.array(
    (
        *(0.0, 0.0, 0.0, 0.002, 0.010, 0.028, 0.060, 0.106, 0.165, 0.237, 0.317, 0.405),
        *(0.50, 0.60, 0.70, 0.81, 0.92, 1.03, 1.15, 1.26, 1.38, 1.50, 1.61, 1.74),
    )
)
#: Points need a weight a row, so they pay only where they are clearly fewer than intervals.
_WORTHWHILE = 0.8
_FEWEST = 5  # intervals
_TINY = 1e-300  # stands for zero in a denominator


@dataclass(frozen=True, eq=False)
class IntervalPoints:
    """Points that stand for the first intervals.

    rates       (points,) exp(α) there
    shares      (intervals, points): values at the intervals are `shares @ values at points`
    weight      (points,) how often each counts in a sum over the intervals
    """

    rates: FloatArray
    shares: FloatArray
    weight: FloatArray

    def spread(self, values: FloatArray) -> FloatArray:
        """Hand out the sums at the points, which come first in `values`, to the intervals."""
        points = self.rates.size
        return np.concatenate((self.shares @ values[:points], values[points:]))


@dataclass(frozen=True, eq=False)
class PassedIntervals:
    """The points for the first so many intervals, at one α; found when first needed."""

    link: AbstractLink
    alpha: FloatArray
    _known: dict[int, IntervalPoints | None] = field(default_factory=dict)

    def first(self, intervals: int) -> IntervalPoints | None:
        """Points for the first `intervals` intervals, None where they would not be fewer."""
        if intervals not in self._known:
            self._known[intervals] = self._points(self.alpha[:intervals])
        return self._known[intervals]

    def _points(self, alpha: FloatArray) -> IntervalPoints | None:
        if alpha.size < _FEWEST:
            return None
        low, high = alpha.min(), alpha.max()
        half = 0.5 * (high - low)
        if not half <= self.link.smoothness * _REACH[-1]:
            return None
        points = 1 + int(np.searchsorted(_REACH, half / self.link.smoothness))
        if points > _WORTHWHILE * alpha.size:
            return None
        return _chebyshev(alpha, 0.5 * (low + high), half, points)


def _chebyshev(alpha: FloatArray, middle: float, half: float, points: int) -> IntervalPoints:
    """Chebyshev's points between middle ± half, and the polynomial through them at `alpha`."""
    place, table = _between(points)
    inside = np.clip((alpha - middle) / max(half, _TINY), -1.0, 1.0)
    shares = np.cos(np.outer(np.arccos(inside), np.arange(points))) @ table
    return IntervalPoints(np.exp(middle + half * place), shares, np.add.reduce(shares, 0))


@lru_cache(maxsize=_REACH.size)
def _between(points: int) -> tuple[FloatArray, FloatArray]:
    """Chebyshev's points in ±1, and how values there become coefficients of T_0, T_1, …."""
    angle = (np.arange(points) + 0.5) * (np.pi / points)
    factor = np.where(np.arange(points) == 0, 1.0, 2.0) / points
    return np.cos(angle), factor[:, None] * np.cos(np.outer(np.arange(points), angle))
