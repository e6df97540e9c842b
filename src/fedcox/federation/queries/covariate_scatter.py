"""The covariates' spread around the joint means, alone and together.

The common scale and aliased columns come from this.

Asked after the means are known: products of centered values keep all their digits, where
differences of raw second moments would lose them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedcox.federation.query import AbstractSumQuery
from fedcox.survival.cohort import Cohort, FloatArray

_BLOCK = 1024  # rows centered at a time: they stay in the cache


@dataclass(frozen=True, eq=False)
class CovariateScatter(AbstractSumQuery[FloatArray]):
    """Σ (x − mean)(x − mean)ᵀ over patients, a missing value counting as the mean."""

    mean: FloatArray

    @property
    def name(self) -> str:
        return "covariate scatter"

    @property
    def numbers(self) -> int:
        return int(self.mean.size)

    def answer(self, cohort: Cohort) -> FloatArray:
        scatter = np.zeros((cohort.columns, cohort.columns))
        buffer = np.empty((_BLOCK, cohort.columns))
        for start in range(0, cohort.patients, _BLOCK):
            block = cohort.covariates[start : start + _BLOCK]
            centered = np.subtract(block, self.mean, out=buffer[: len(block)])
            if not cohort.complete:
                np.nan_to_num(centered, copy=False, nan=0.0)
            with np.errstate(over="ignore"):  # an infinite square is told by its column
                scatter += centered.T @ centered
        return scatter

    def combine(self, left: FloatArray, right: FloatArray) -> FloatArray:
        return np.asarray(left + right)

    def numbers_in(self, answer: FloatArray) -> int:
        columns = len(answer)
        return columns * (columns + 1) // 2
