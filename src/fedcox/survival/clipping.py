"""How is one patient kept from weighing more than a bound? Each row of numbers is a patient."""

from __future__ import annotations

import numpy as np

from fedcox.survival.cohort import FloatArray

#: Rows stop this little short of the bound, so that rounding never lifts one above it.
_SLACK = 1e-12
#: Where squares are smaller than this they may have lost their digits.
_SMALLEST = 1e-200


def shortened(rows: FloatArray, bound: float) -> FloatArray:
    """Each row, or as much of it as has Euclidean length `bound`.

    A row that is not finite becomes zero. What becomes of a row does not depend, to the last
    bit, on the other rows: else one patient more would move the shares of others, too.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        square = (rows**2).sum(axis=1)
        fits = (square >= _SMALLEST) & (square <= (bound * (1.0 - 2.0 * _SLACK)) ** 2)
        long = np.flatnonzero(~fits)
        if not long.size:
            return rows
        kept = rows.copy()
        kept[long] = _cut(rows[long], bound)
        return kept


def _cut(rows: FloatArray, bound: float) -> FloatArray:
    # By the largest entry first: squares of what is left neither overflow nor vanish.
    largest = np.abs(rows).max(axis=1, initial=0.0, keepdims=True)
    unit = np.divide(rows, largest, out=np.zeros_like(rows), where=largest > 0)
    length = np.sqrt((unit**2).sum(axis=1, keepdims=True))
    allowed = np.minimum(largest * length, bound * (1.0 - _SLACK))
    unit *= np.divide(allowed, length, out=np.zeros_like(length), where=length > 0)
    unit[~np.isfinite(unit).all(axis=1)] = 0.0
    return np.asarray(unit)


def on_grid(rows: FloatArray, resolution: float) -> FloatArray:
    """Numbers rounded to multiples of `resolution`, a power of two: sums of them are exact."""
    return np.asarray(np.rint(rows / resolution) * resolution)
