"""A curve that is constant between its steps, as a callable."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fedcox.survival.cohort import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class StepFunction:
    """y[i] from x[i] up to the next step; `before` to the left of the first.

    >>> StepFunction(np.array([1.0, 2.0]), np.array([0.9, 0.5]), before=1.0)([0.5, 1.0, 7.0])
    array([1. , 0.9, 0.5])
    """

    x: FloatArray
    y: FloatArray
    before: float

    def __call__(self, at: ArrayLike) -> FloatArray:
        position = steps_reached(self.x, np.asarray(at, dtype=np.float64))
        return np.asarray(np.concatenate([[self.before], self.y])[position])


def steps_reached(x: FloatArray, at: FloatArray) -> IntArray:
    """How many steps lie at or before each time, where rounding of a step's place is forgiven.

    Three intervals of 0.1 end at 0.30000000000000004; a reader who asks at 0.3 means that end.
    """
    return np.searchsorted(x, at + 1e-9 * np.abs(at), side="right")
