"""How few patients share a level? Products of a rare level's column with others are theirs.

The covariate scatter and every curvature hold sums over the patients with a level of each other
covariate. If one patient has the level, they are that patient's covariates.
"""

from __future__ import annotations

import numpy as np

from fedcox.survival.cohort import Cohort, FloatArray, IntArray


def smallest_level(
    cohort: Cohort,
    *,
    rows: IntArray | None = None,
    columns: IntArray | None = None,
    mean: FloatArray | None = None,
    patients: int | None = None,
) -> int | None:
    """The fewest patients with, or without, a level that a patient here has, or has not.

    Of the center's own patients, or of some `rows`, in all columns or in some. With the joint
    `mean` of each of these columns and the number of `patients` of all centers: of all of
    them. A level is a column of zeros and ones; None without one.
    """
    covariates = cohort.covariates if rows is None else cohort.covariates[rows]
    covariates = covariates if columns is None else covariates[:, columns]
    present = ~np.isnan(covariates)
    ones = np.count_nonzero(covariates == 1, axis=0)
    zeros = np.count_nonzero(covariates == 0, axis=0)
    levels = (ones + zeros > 0) & (ones + zeros == np.count_nonzero(present, axis=0))
    own = np.stack([ones, zeros])
    shared = own
    if mean is not None and patients is not None:
        counted = np.rint(mean * patients)
        claimed = np.stack([counted, patients - counted])
        shared = np.where(claimed >= own, claimed, 0)  # a claim that cannot be counts nothing
    chosen = shared[(own > 0) & levels]
    return int(chosen.min()) if chosen.size else None
