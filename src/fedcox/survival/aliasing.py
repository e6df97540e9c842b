"""Which columns repeat what the columns before them already say? Read off summed products."""

from __future__ import annotations

import numpy as np

from fedcox.survival.cohort import BoolArray, FloatArray

#: A column is aliased when this little of its variance is left over by the columns before it.
#: R's coxph draws the line at 1.8e-12; summed moments carry about fifteen digits.
_LEFT_OVER = 1e-11


def constant_columns(scatter: FloatArray, mean: FloatArray, patients: int) -> BoolArray:
    """Columns that do not vary, beyond the rounding of their own mean."""
    spread = np.sqrt(np.maximum(np.diag(scatter), 0.0) / max(patients, 1))
    return np.asarray(spread <= 1e-12 * np.abs(mean))


def aliased_columns(scatter: FloatArray, usable: BoolArray) -> BoolArray:
    """Columns that are combinations of earlier usable ones, by a Cholesky sweep in order.

    `scatter` holds centered products, so a combination that includes a constant counts too. As
    in R, the later column is the one that goes.
    """
    columns = scatter.shape[0]
    aliased = np.zeros(columns, dtype=np.bool_)
    scale = np.where(usable, np.sqrt(np.diag(scatter)), 1.0)
    left = scatter / np.outer(scale, scale)
    for j in range(columns):
        if not usable[j]:
            continue
        if left[j, j] < _LEFT_OVER:
            aliased[j] = True
            continue
        row = left[j, j + 1 :]
        left[j + 1 :, j + 1 :] -= np.outer(row, row / left[j, j])
    return aliased
