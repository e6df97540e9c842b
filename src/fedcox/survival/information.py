"""What information there is on (α, β): for a step, and for which columns it has died away."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve, eigh

from fedcox.survival.cohort import BoolArray, FloatArray
from fedcox.survival.derivatives import Curvature, weighted_square

#: Added to a complement that is singular to rounding, relative to its largest diagonal.
_JITTER = 1e-13
#: A column is aliased when this little of its variance is left over by the columns before it.
#: R's coxph draws the line at 1.8e-12; summed moments carry about fifteen digits.
_LEFT_OVER = 1e-11
#: The part of the information without effects that a direction with an optimum keeps at least:
#: one event where ten thousand were to be expected.
_KEPT = 1e-4
#: Keeps nearly aliased columns apart by more than rounding.
_APART = 1e-12


def schur_complement(curvature: Curvature) -> FloatArray:
    """H_ββ − H_βα H_αα⁻¹ H_αβ: the information on β once α is estimated too."""
    if curvature.cross is None or curvature.beta.ndim != 2:
        raise ValueError("The Schur complement needs the full curvature.")
    if curvature.alpha.ndim == 2:
        eliminated = curvature.cross.T @ solve_alpha(curvature, curvature.cross)
        return np.asarray(curvature.beta - 0.5 * (eliminated + eliminated.T))
    return curvature.beta - weighted_square(curvature.cross, _inverse(curvature.alpha))


def _inverse(diagonal: FloatArray) -> FloatArray:
    """1 / diagonal, zero where an interval carries no information."""
    return np.divide(1.0, diagonal, out=np.zeros_like(diagonal), where=diagonal > 0)


def solve_alpha(curvature: Curvature, right: FloatArray) -> FloatArray:
    """H_αα⁻¹ times `right`, (numbers,) or (numbers, columns).

    Zero where an interval carries no information.
    """
    alpha = curvature.alpha
    if alpha.ndim == 2:
        return np.asarray(np.linalg.solve(alpha, right))
    inverse = _inverse(alpha)
    return np.asarray((inverse if right.ndim == 1 else inverse[:, None]) * right)


@dataclass(frozen=True, eq=False)
class Factored:
    """A curvature of (α, β) ready to be solved with, as often as needed.

    A step takes T divisions and one P×P system, the Schur complement.
    """

    curvature: Curvature
    complement: FloatArray
    factor: tuple[FloatArray, bool]

    @classmethod
    def of(cls, curvature: Curvature) -> Factored:
        complement = schur_complement(curvature)
        largest = float(np.diag(curvature.beta).max(initial=0.0)) or 1.0
        jitter = 0.0
        while True:
            try:
                factor = cho_factor(complement + jitter * largest * np.eye(len(complement)))
            except np.linalg.LinAlgError:
                # A direction without information (separation): keep the step finite.
                jitter = max(_JITTER, 10.0 * jitter)
            else:
                return cls(curvature, complement, factor)

    @property
    def total(self) -> float:
        """The summed information on α: about the number of events, but for a spline's."""
        return float(self.curvature.alpha.sum())

    def solve(self, alpha: FloatArray, beta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(α, β) parts of H⁻¹ (alpha, beta)."""
        cross = self.curvature.cross
        if cross is None or not beta.size:
            return solve_alpha(self.curvature, alpha), beta
        alone = solve_alpha(self.curvature, alpha)
        of_beta = np.asarray(cho_solve(self.factor, beta - alone @ cross))
        return solve_alpha(self.curvature, alpha - cross @ of_beta), of_beta


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


def separated_columns(information: FloatArray, without_effects: FloatArray) -> BoolArray:
    """Columns without a finite optimum: their variance is where the information has died away.

    Where some group has no event, or only events, the likelihood keeps rising as a coefficient
    grows, and the information on it dies away towards zero: however a solver got there and
    wherever it gave up, next to nothing is left of what the same covariates would tell without
    effects.

    `information` on the coefficients at the solution, and about what it is `without_effects`:
    both (columns, columns). Compared direction by direction, so that columns which merely
    resemble each other do not count.
    """
    columns = len(information)
    if not columns:
        return np.zeros(0, dtype=np.bool_)
    size = float(np.diag(without_effects).max())
    left, directions = eigh(information, without_effects + _APART * size * np.eye(columns))
    # The covariance is Σ_k directions_k directions_kᵀ / left_k.
    variance = directions**2 / np.maximum(left, 1e-16)
    gone = variance[:, left < _KEPT].sum(axis=1)
    return np.asarray(gone > 0.5 * variance.sum(axis=1))
