"""Solve with the Hessian of (α, β): T divisions and one P×P system, the Schur complement."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from fedcox.survival.cohort import FloatArray
from fedcox.survival.derivatives import Curvature
from fedcox.survival.weighted_square import weighted_square

#: Added to a complement that is singular to rounding, relative to its largest diagonal.
_JITTER = 1e-13


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
    """A curvature ready to be solved with, as often as needed."""

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
