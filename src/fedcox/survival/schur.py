"""Solve with the Hessian of (α, β): T divisions and one P×P system, the Schur complement."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from fedcox.survival.cohort import FloatArray
from fedcox.survival.derivatives import Curvature

#: Added to a complement that is singular to rounding, relative to its largest diagonal.
_JITTER = 1e-13


def schur_complement(curvature: Curvature) -> FloatArray:
    """H_ββ − H_βα H_αα⁻¹ H_αβ: the information on β once α is estimated too."""
    if curvature.cross is None or curvature.beta.ndim != 2:
        raise ValueError("The Schur complement needs the full curvature.")
    eliminated = curvature.cross * np.sqrt(_inverse(curvature.alpha))[:, None]
    return np.asarray(curvature.beta - eliminated.T @ eliminated)


def _inverse(diagonal: FloatArray) -> FloatArray:
    """1 / diagonal, zero where an interval carries no information."""
    return np.divide(1.0, diagonal, out=np.zeros_like(diagonal), where=diagonal > 0)


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
        """The summed information on α: about the number of events."""
        return float(self.curvature.alpha.sum())

    def solve(self, alpha: FloatArray, beta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(α, β) parts of H⁻¹ (alpha, beta)."""
        cross = self.curvature.cross
        inverse = _inverse(self.curvature.alpha)
        if cross is None or not beta.size:
            return inverse * alpha, beta
        of_beta = np.asarray(cho_solve(self.factor, beta - (inverse * alpha) @ cross))
        return inverse * (alpha - cross @ of_beta), of_beta
