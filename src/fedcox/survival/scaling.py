"""One scale for all centers: the joint mean and spread, which also fill what is missing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedcox.survival.cohort import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Scaling:
    """Columns `keep` of the covariates, centered at `mean` and divided by `spread`.

    Solvers work on these; `coefficients` and `intercepts` bring the answer back to the
    covariates as given. A missing value becomes the joint mean, that is zero.
    """

    keep: IntArray
    mean: FloatArray
    spread: FloatArray

    @property
    def numbers(self) -> int:
        """How many numbers describe this scaling to a center."""
        return 3 * int(self.keep.size)

    @classmethod
    def none(cls, columns: int) -> Scaling:
        """The covariates as they are."""
        return cls(np.arange(columns), np.zeros(columns), np.ones(columns))

    def apply(self, covariates: FloatArray, out: FloatArray, *, complete: bool = False) -> None:
        """Write the scaled columns of some patients into `out` (patients, kept columns).

        `complete` promises that nothing is missing, which saves looking for it.
        """
        kept = covariates
        if self.keep.size != covariates.shape[1]:
            kept = covariates[:, self.keep]
        np.subtract(kept, self.mean, out=out)
        out *= 1.0 / self.spread
        if not complete and np.isnan(out.sum()):
            np.nan_to_num(out, copy=False, nan=0.0)

    def coefficients(self, beta: FloatArray) -> FloatArray:
        """Coefficients per unit of the covariates as given."""
        return np.asarray(beta / self.spread)

    def intercepts(self, alpha: FloatArray, beta: FloatArray) -> FloatArray:
        """α at covariates of zero, as given, instead of at the joint mean."""
        return np.asarray(alpha - float(self.coefficients(beta) @ self.mean))

    def covariance(self, scaled: FloatArray) -> FloatArray:
        """Covariance of the coefficients per unit of the covariates as given."""
        return np.asarray(scaled / np.outer(self.spread, self.spread))
