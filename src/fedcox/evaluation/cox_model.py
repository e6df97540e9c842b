"""Cox's model as a risk score, whatever the patients are like.

Without a penalty some fits have no optimum: too few events for the columns, or a category
without events. The likelihood then keeps rising in some direction, and where a solver gives up
is an accident. Such a fit is repeated with a faint ridge, whose optimum exists and is unique;
it follows the same direction as far as a hundredth of an event allows. The c-index looks only
at the order of the risks, which is what that direction decides.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fedcox.evaluation.scheme import LinearRisk, Trained
from fedcox.federation.query import Federation
from fedcox.solvers.solver import AbstractSolver
from fedcox.study.cox import CoxFit, CoxLossName, fit_cox
from fedcox.survival.cohort import FloatArray
from fedcox.survival.partial_likelihood import Ties

#: On standardised covariates, where an event tells about 1: a hundredth of an event.
FAINT_RIDGE = 0.01


@dataclass(frozen=True)
class CoxTraining:
    """How to fit Cox's model on a federation."""

    ties: Ties
    ridge: float
    loss: CoxLossName = "stratified"
    solver: AbstractSolver | None = None

    def train(self, federation: Federation) -> Trained:
        """One model that gives finite risks, or none; the notes say what is special in it."""
        fit = self._fit(federation, self.ridge)
        notes = []
        if not self.ridge and (fit.separated.any() or not fit.converged):
            notes.append(_trouble(fit))
            fit = self._faintly_penalised(federation, fit)
        if not fit.converged:
            notes.append("Cox's model was left before its optimum, where the solver stopped.")
        usable = np.isfinite(fit.coefficients).all() and not fit.aliased.all()
        if not usable:
            notes.append("Cox's model has no coefficient to tell patients apart with.")
        return Trained(
            (LinearRisk(fit.coefficients, fit.mean),) if usable else (),
            tuple(notes),
            fit.rounds,
            fit.bytes_up,
            fit.bytes_down,
        )

    def _faintly_penalised(self, federation: Federation, first: CoxFit) -> CoxFit:
        # A constant column has no spread and no coefficient; any penalty does.
        spread = np.where(first.spread > 0, first.spread, 1.0)
        fit = self._fit(federation, FAINT_RIDGE * spread**2)
        return replace(
            fit,
            rounds=first.rounds + fit.rounds,
            bytes_up=first.bytes_up + fit.bytes_up,
            bytes_down=first.bytes_down + fit.bytes_down,
        )

    def _fit(self, federation: Federation, ridge: float | FloatArray) -> CoxFit:
        return fit_cox(
            federation, ties=self.ties, ridge=ridge, loss=self.loss, solver=self.solver
        )


def _trouble(fit: CoxFit) -> str:
    """Without sizes: they differ from fold to fold, and small ones speak of a few patients."""
    if fit.separated.any():
        what = "some coefficient grows without bound"
    else:
        what = "the solver did not reach an optimum"
    return (
        f"Cox's model: {what}; fitted again with a ridge of {FAINT_RIDGE:g} on standardised "
        "covariates."
    )
