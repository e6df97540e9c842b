"""How few patients share a level? Products of a rare level's column with others are theirs.

The covariate scatter and every curvature hold sums over the patients with a level of each other
covariate. If one patient has the level, they are that patient's covariates. A column that has
one value for nearly everybody is the same, whatever its values are.
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
    present: FloatArray | None = None,
) -> int | None:
    """The fewest patients with, or without, a level that a patient here has, or has not.

    Of the center's own patients, or of some `rows`, in all columns or in some. A level is a
    column of zeros and ones; with the joint `mean` of each of these columns and the number of
    values `present` in all centers, patients of all of them count. Of other columns the
    fewest count who have not the value that most have; these only among the center's own. None
    without a patient.
    """
    covariates = cohort.covariates if rows is None else cohort.covariates[rows]
    covariates = covariates if columns is None else covariates[:, columns]
    known = np.count_nonzero(~np.isnan(covariates), axis=0)
    ones = np.count_nonzero(covariates == 1, axis=0)
    zeros = np.count_nonzero(covariates == 0, axis=0)
    levels = (ones + zeros > 0) & (ones + zeros == known)
    own = np.stack([ones, zeros])
    shared = own
    if mean is not None and present is not None:
        counted = np.rint(mean * present)
        claimed = np.stack([counted, present - counted])
        shared = np.where(claimed >= own, claimed, 0)  # a claim that cannot be counts nothing
    groups = shared[(own > 0) & levels].astype(np.int64)
    usual = _usual(covariates, known)
    others = known - usual
    # A value that hardly more than half have is no level: the others are many.
    groups = np.append(groups, others[~levels & (others > 0) & (usual > others)])
    return int(groups.min()) if groups.size else None


def _usual(covariates: FloatArray, known: IntArray) -> IntArray:
    """How many patients have the median of each column: that of most, where most have one."""
    counts = np.zeros(covariates.shape[1], dtype=np.int64)
    some = np.flatnonzero(known)
    middle = np.nanquantile(covariates[:, some], 0.5, axis=0, method="lower")
    counts[some] = np.count_nonzero(covariates[:, some] == middle, axis=0)
    return counts
