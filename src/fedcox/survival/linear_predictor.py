"""β·x of each patient, the same to the last bit wherever and with whom the patient is.

A matrix product rounds a row differently in another block of rows: equal patients of two
centers then differ in the last digit, and a tie of the c-index is one no longer. Here every
patient's columns are added one after the other, whoever else is there.
"""

from __future__ import annotations

import numpy as np

from fedcox.survival.cohort import FloatArray

#: Numbers worked on at a time, so that they stay in the cache, and fewest patients.
_BLOCK, _FEWEST = 2**17, 256


def linear_predictor(
    covariates: FloatArray, coefficients: FloatArray, *, mean: FloatArray | None = None
) -> FloatArray:
    """Σ_j β_j x_j of each row of (patients, columns), or Σ_j β_j (x_j − mean_j).

    With a `mean`, a missing value counts as that. A column with a coefficient of zero, such as
    one left out of a fit, is not looked at, whatever it lacks.

    >>> linear_predictor(np.array([[1.0, 2.0], [3.0, np.nan]]), np.array([0.5, 0.0]))
    array([0.5, 1.5])
    """
    used = np.flatnonzero(coefficients)
    everything = used.size == coefficients.size
    factor = coefficients[used, None]
    center = None if mean is None else mean[used, None]
    rows = max(_FEWEST, _BLOCK // max(1, used.size))
    predictor = np.zeros(len(covariates))
    with np.errstate(over="ignore", invalid="ignore"):  # as silent as a matrix product
        for first in range(0, len(covariates), rows):
            block = covariates[first : first + rows]
            terms = (block if everything else block[:, used]).T
            if center is not None:
                terms = terms - center
                terms[np.isnan(terms)] = 0.0
            summands = np.multiply(terms, factor, order="C")
            if len(block) == 1:  # alone, its columns would be added in another order
                summands = np.repeat(summands, 2, axis=1)
            predictor[first : first + rows] = np.add.reduce(summands, axis=0)[: len(block)]
    return predictor
