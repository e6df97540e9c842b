"""Σ w_i x_i x_iᵀ over patients, block by block."""

from __future__ import annotations

import numpy as np

from fedcox.survival.cohort import FloatArray
from fedcox.survival.threads import in_order, parts

#: Numbers weighted at a time: measured.
_BLOCK = 2**18
#: Up to so many columns a product of two matrices is quicker than half of a square; measured.
_FEW_COLUMNS = 20


def weighted_square(covariates: FloatArray, weight: FloatArray) -> FloatArray:
    """Σ_i w_i x_i x_iᵀ for w ≥ 0 and covariates (patients, columns): (columns, columns)."""
    columns = covariates.shape[1]
    size = max(256, _BLOCK // max(columns, 1))

    def square(part: slice) -> FloatArray:
        total = np.zeros((columns, columns))
        buffer = np.empty((min(size, part.stop - part.start), columns))
        for start in range(part.start, part.stop, size):
            own = slice(start, min(start + size, part.stop))
            rows = buffer[: own.stop - own.start]
            np.multiply(covariates[own], np.sqrt(weight[own])[:, None], out=rows)
            total += np.dot(rows.T, rows)  # unlike `@`, it lets other threads go on
        return total

    cut = parts(len(covariates), columns, least=4 * columns)
    return np.asarray(sum(in_order(square, cut)))


def square_of_columns(
    columns: FloatArray, weight: FloatArray, scratch: FloatArray
) -> FloatArray:
    """The same of a few patients laid out as (columns, patients).

    `scratch` is memory for as many columns and at least as many patients.
    """
    room = scratch[:, : weight.size]
    if len(columns) <= _FEW_COLUMNS:
        square = np.multiply(columns, 0.5 * weight, out=room) @ columns.T
        return np.asarray(square + square.T)
    rooted = np.multiply(columns, np.sqrt(np.maximum(weight, 0.0)), out=room)
    return np.asarray(rooted @ rooted.T)
