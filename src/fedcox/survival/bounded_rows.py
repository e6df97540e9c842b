"""Rows of numbers cut at a bound, and those that are made of covariates alone.

What becomes of a row does not depend, to the last bit, on the other rows.
"""

from __future__ import annotations

import math

import numpy as np

from fedcox.survival.cohort import BoolArray, FloatArray, IntArray
from fedcox.survival.time_at_risk import TimeAtRisk

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
        kept[long] = _cut_at(rows[long], bound)
        return kept


def _cut_at(rows: FloatArray, bound: float) -> FloatArray:
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


def turn(columns: FloatArray, matrix: FloatArray) -> FloatArray:
    """The matrix times every patient's columns.

    No matrix product of BLAS, in which a row might depend on the others to the last bit: one
    column after the other is added to all patients. A patient alone would be summed over in
    another order, so there are two at least.
    """
    patients, number = columns.shape
    by_column = np.zeros((number, max(patients, 2)))
    by_column[:, :patients] = columns.T
    turned = np.einsum("cp,rc->rp", by_column, matrix, optimize=False)
    return np.ascontiguousarray(turned[:, :patients].T)


def moment_rows(covariates: FloatArray, numbers: BoolArray) -> FloatArray:
    """Every column, and the square of those that are `numbers`: (patients, sums).

    Numbers lie between -1 and 1; the others are the levels of categories, of which a patient
    has one or none.
    """
    kept = np.clip(covariates, -1.0, 1.0)
    return np.hstack([kept, kept[:, numbers] ** 2])


def moment_bound(numbers: int, categories: int) -> float:
    """The longest row of `moment_rows`."""
    return math.sqrt(2 * numbers + categories)


def product_rows(columns: FloatArray, cap: float) -> FloatArray:
    """Products of y = [1, columns]: (patients, products), no row longer than cap².

    Each is weighted by w² with w = min(1, cap / |y|), which looks at covariates alone.
    """
    y = np.hstack([np.ones((columns.shape[0], 1)), columns])
    weight = np.minimum(1.0, cap**2 / (y**2).sum(axis=1))
    row, column, factor = triangle_places(y.shape[1])
    return np.asarray(y[:, row] * y[:, column] * factor * weight[:, None])


def event_rows(columns: FloatArray, placed: TimeAtRisk, pieces: int, cap: float) -> FloatArray:
    """The columns of those with the event, piece by piece: (patients, pieces · columns).

    Weighted by min(1, cap / |columns|): no row is longer than cap.
    """
    length = np.sqrt((columns**2).sum(axis=1))
    weight = np.minimum(1.0, cap / np.maximum(length, cap))
    rows = np.zeros((*columns.shape[:1], pieces, *columns.shape[1:]))
    happened = np.flatnonzero(placed.event & (placed.passed < pieces))
    rows[happened, placed.passed[happened]] = columns[happened] * weight[happened, None]
    return rows.reshape(len(columns), -1)


def square_of(triangle: FloatArray) -> FloatArray:
    """The symmetric matrix whose entries on and above the diagonal these are.

    What stands for two entries counts √2, so that the length of the one is that of the other.
    """
    size = math.isqrt(2 * triangle.size)
    row, column, factor = triangle_places(size)
    square = np.zeros((size, size))
    square[row, column] = square[column, row] = triangle / factor
    return square


def triangle_places(size: int) -> tuple[IntArray, IntArray, FloatArray]:
    """Rows, columns and weights of a triangle: what stands for two entries counts √2 times."""
    row, column = np.triu_indices(size)
    return row, column, np.where(row == column, 1.0, math.sqrt(2.0))
