"""The covariates' spread around the joint means, alone and together.

The common scale and aliased columns come from this.

Asked after the means are known: products of centered values keep all their digits, where
differences of raw second moments would lose them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedcox.federation.query import AbstractSumQuery
from fedcox.federation.sums import Shapes, Symmetric
from fedcox.survival.bounds import shaped
from fedcox.survival.cohort import Cohort, FloatArray
from fedcox.survival.threads import in_order, parts

_BLOCK = 1024  # rows at a time: they stay in the cache
#: A square around a mean of so many standard deviations loses two digits, no more.
_NEAR = 8.0


@dataclass(frozen=True, eq=False)
class CovariateScatter(AbstractSumQuery[FloatArray]):
    """Σ (x − mean)(x − mean)ᵀ over patients, a missing value counting as the mean."""

    words: ClassVar = {
        "covariate scatter": "how the columns vary around the joint means, and together"
    }
    by_default = True

    mean: FloatArray

    @property
    def numbers(self) -> int:
        return int(self.mean.size)

    #: Columns come in any unit.
    fine = None

    def faults(self, columns: int | None) -> Iterator[str]:
        """Means are of all columns, not of those kept."""
        if self.mean.ndim != 1:
            yield "mean must be a list of numbers"
        elif columns is not None:
            yield from shaped(
                "mean", self.mean, (columns,), "one for each column of the patients"
            )

    def shapes(self, columns: int | None) -> Shapes:
        return {"": Symmetric(self.mean.size)}

    def answer(self, cohort: Cohort) -> FloatArray:
        with np.errstate(over="ignore"):  # an infinite square is told by its column
            first = cohort.covariates[:_BLOCK] - self.mean
            many = cohort.complete and cohort.patients > _BLOCK
            if many and self._near(np.square(first).mean(axis=0)):
                total = np.outer(self.mean, cohort.totals - 0.5 * cohort.patients * self.mean)
                scatter = _square(cohort, None) - total - total.T
                if self._near(np.diag(scatter) / cohort.patients):
                    return scatter
            return _square(cohort, self.mean)

    def _near(self, variance: FloatArray) -> bool:
        """Whether no column is so far from zero that its square would lose digits."""
        return bool((self.mean**2 <= _NEAR**2 * variance).all())


def _square(cohort: Cohort, mean: FloatArray | None) -> FloatArray:
    """Σ x xᵀ, around the mean if it is given."""
    given = cohort.covariates

    def square(part: slice) -> FloatArray:
        total = np.zeros((cohort.columns, cohort.columns))
        buffer = np.empty((_BLOCK, cohort.columns))
        for start in range(part.start, part.stop, _BLOCK):
            x = given[start : min(start + _BLOCK, part.stop)]
            if mean is not None:
                x = np.subtract(x, mean, out=buffer[: len(x)])
                if not cohort.complete:
                    np.nan_to_num(x, copy=False, nan=0.0)
            total += x.T @ x
        return total

    cut = parts(cohort.patients, cohort.columns, least=4 * cohort.columns)
    return np.asarray(sum(in_order(square, cut)))
