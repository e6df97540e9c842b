"""A curve that is constant between its steps, as a callable."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fedcox.survival.cohort import FloatArray


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
        position = np.searchsorted(self.x, np.asarray(at, dtype=np.float64), side="right")
        return np.asarray(np.concatenate([[self.before], self.y])[position])
