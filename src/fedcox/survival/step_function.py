"""A curve that is constant between its steps, as a callable."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fedcox.survival.cohort import FloatArray, IntArray

_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class StepFunction:
    """y[i] from x[i] up to the next step; `before` from zero to the first, nothing after `end`.

    >>> curve = StepFunction(np.array([1.0, 2.0]), np.array([0.9, 0.5]), before=1.0, end=3.0)
    >>> curve([0.5, 1.0, 3.0])
    array([1. , 0.9, 0.5])
    """

    x: FloatArray
    y: FloatArray
    before: float
    end: float

    @property
    def domain(self) -> tuple[float, float]:
        """The first and the last time at which the curve is known."""
        return 0.0, self.end

    def __call__(self, at: ArrayLike) -> FloatArray:
        """The curve at these times; a ValueError where one of them lies outside `domain`."""
        times = np.asarray(at, dtype=np.float64)
        outside = ~((times >= 0) & (times <= self.end * (1 + _ROUNDING)))  # NaN is outside
        if outside.any():
            raise ValueError(
                f"{int(outside.sum())} of {times.size} times lie outside 0 to {self.end:g}, "
                "where the curve is known. Ask within its domain."
            )
        position = steps_reached(self.x, times)
        return np.asarray(np.concatenate([[self.before], self.y])[position])


def steps_reached(x: FloatArray, at: FloatArray) -> IntArray:
    """How many steps lie at or before each time, where rounding of a step's place is forgiven.

    Three intervals of 0.1 end at 0.30000000000000004; a reader who asks at 0.3 means that end.
    """
    return np.searchsorted(x, at + _ROUNDING * np.abs(at), side="right")
