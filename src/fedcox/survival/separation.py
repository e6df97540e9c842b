"""Which coefficients have no finite optimum? Read off the information that is left on them.

Where some group has no event, or only events, the likelihood keeps rising as a coefficient
grows, and the information on it dies away towards zero: however a solver got there and wherever
it gave up, next to nothing is left of what the same covariates would tell without effects.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import eigh

from fedcox.survival.cohort import BoolArray, FloatArray

#: The part of the information without effects that a direction with an optimum keeps at least:
#: one event where ten thousand were to be expected.
_LEFT_OVER = 1e-4
#: Keeps nearly aliased columns apart by more than rounding.
_JITTER = 1e-12


def separated_columns(information: FloatArray, without_effects: FloatArray) -> BoolArray:
    """Columns whose variance comes from directions in which the information has died away.

    `information` on the coefficients at the solution, and about what it is `without_effects`:
    both (columns, columns). Compared direction by direction, so that columns which merely
    resemble each other do not count.
    """
    columns = len(information)
    if not columns:
        return np.zeros(0, dtype=np.bool_)
    size = float(np.diag(without_effects).max())
    left, directions = eigh(information, without_effects + _JITTER * size * np.eye(columns))
    # The covariance is Σ_k directions_k directions_kᵀ / left_k.
    variance = directions**2 / np.maximum(left, 1e-16)
    gone = variance[:, left < _LEFT_OVER].sum(axis=1)
    return np.asarray(gone > 0.5 * variance.sum(axis=1))
