"""One scale for all centers: joint mean and spread, which fill what is missing; and β·x."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fedcox.survival.bounds import increase, shaped
from fedcox.survival.cohort import FloatArray, IntArray

#: Numbers scaled at a time: they stay in the cache between subtraction and product.
_CHUNK = 16_384
#: Numbers worked on at a time, so that they stay in the cache, and fewest patients.
_BLOCK, _FEWEST = 2**17, 256


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

    def faults(self, columns: int | None) -> Iterator[str]:
        """Every column once and in order: where all are kept, none is looked for by its place.

        `columns` is how many there are, None where that is not known.
        """
        keep = self.keep
        if keep.ndim != 1:
            yield "keep must be a list of columns"
            return
        yield from shaped("mean", self.mean, keep.shape, "one for each column kept")
        yield from shaped("spread", self.spread, keep.shape, "one for each column kept")
        if not increase(keep) or (keep < 0).any():
            yield "keep must name columns in their order, each once"
        elif columns is not None and keep.size and keep[-1] >= columns:
            yield f"keep names column {keep[-1] + 1}, and patients have {columns}"
        if not (self.spread > 0).all():
            yield "spread must be above zero"

    def apply(self, covariates: FloatArray, out: FloatArray, *, complete: bool = False) -> None:
        """Write the scaled columns of some patients into `out` (patients, kept columns).

        `complete` promises that nothing is missing, which saves looking for it.
        """
        kept = covariates
        if self.keep.size != covariates.shape[1]:
            kept = covariates[:, self.keep]
        if kept.flags.c_contiguous and out.flags.c_contiguous and self.mean.size:
            self._apply_flat(kept.reshape(-1), out.reshape(-1))
        else:
            np.subtract(kept, self.mean, out=out)
            out *= 1.0 / self.spread
        if not complete and np.isnan(out.sum()):
            # Infinities stay: nothing becomes of a row that depends on the other rows.
            np.nan_to_num(out, copy=False, nan=0.0, posinf=np.inf, neginf=-np.inf)

    def _apply_flat(self, given: FloatArray, out: FloatArray) -> None:
        """The same, many rows as one: long runs are twice as fast as one run a patient."""
        mean, factor = self._rows
        for first in range(0, given.size, mean.size):
            part = out[first : first + mean.size]
            np.subtract(given[first : first + mean.size], mean[: part.size], out=part)
            part *= factor[: part.size]

    @cached_property
    def _rows(self) -> tuple[FloatArray, FloatArray]:
        """Mean and one over spread, repeated for as many patients as fit a chunk."""
        rows = max(1, _CHUNK // self.mean.size)
        return np.tile(self.mean, rows), np.tile(1.0 / self.spread, rows)

    def coefficients(self, beta: FloatArray) -> FloatArray:
        """Coefficients per unit of the covariates as given."""
        return np.asarray(beta / self.spread)

    def intercepts(self, alpha: FloatArray, beta: FloatArray) -> FloatArray:
        """α at covariates of zero, as given, instead of at the joint mean."""
        return np.asarray(alpha - float(self.coefficients(beta) @ self.mean))

    def covariance(self, scaled: FloatArray) -> FloatArray:
        """Covariance of the coefficients per unit of the covariates as given."""
        return np.asarray(scaled / np.outer(self.spread, self.spread))


def linear_predictor(
    covariates: FloatArray, coefficients: FloatArray, *, mean: FloatArray | None = None
) -> FloatArray:
    """Σ_j β_j x_j of each row of (patients, columns), or Σ_j β_j (x_j − mean_j).

    With a `mean`, a missing value counts as that. A column with a coefficient of zero, such as
    one left out of a fit, is not looked at, whatever it lacks.

    A matrix product rounds a row differently in another block of rows: equal patients of two
    centers then differ in the last digit, and a tie of the c-index is one no longer. Here every
    patient's columns are added one after the other, so that β·x is the same to the last bit
    wherever and with whom the patient is.

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
