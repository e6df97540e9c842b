"""The losses that solvers minimise, each asked of a federation: one round, one sum."""

from __future__ import annotations

from dataclasses import dataclass

from fedcox.federation.batch import Batch
from fedcox.federation.queries.derivatives import DerivativesAt
from fedcox.federation.queries.risk_set_sums import RiskSetSetting, RiskSetSumsAt
from fedcox.federation.queries.stratified_cox import CoxSetting, StratifiedCoxAt
from fedcox.federation.query import Federation
from fedcox.federation.setting import Setting
from fedcox.solvers.solver import Patients, Point, Problem
from fedcox.survival.derivatives import Derivatives, Detail
from fedcox.survival.risk_set_moments import EventSums, breslow


@dataclass(frozen=True, eq=False)
class DiscreteTimeLoss:
    """−log L(α, β) of the model α + φ(x), under one setting."""

    setting: Setting

    def __call__(
        self, federation: Federation, at: Point, detail: Detail, batch: Batch | None = None
    ) -> Derivatives:
        return federation.ask(DerivativesAt(self.setting, *at, detail, batch))


def setting_of(problem: Problem, what: str) -> Setting:
    """The setting of a model α + φ(x), which `what` is there for alone."""
    if not isinstance(problem.loss, DiscreteTimeLoss):
        raise TypeError(f"{what} is there for the discrete-time model alone.")
    return problem.loss.setting


@dataclass(frozen=True, eq=False)
class StratifiedCoxLoss:
    """Minus the log partial likelihood with every center as its own stratum; α is empty."""

    setting: CoxSetting

    def __call__(
        self, federation: Federation, at: Point, detail: Detail, batch: Patients = None
    ) -> Derivatives:
        return federation.ask(StratifiedCoxAt(self.setting, at.beta, detail, batch))


@dataclass(frozen=True, eq=False)
class WebDiscoLoss:
    """Breslow's log partial likelihood of the pooled patients, negative, from WebDISCO's sums.

    `sums` are those of all centers, on the scaled covariates. α is empty.
    """

    setting: RiskSetSetting
    sums: EventSums

    def __call__(
        self, federation: Federation, at: Point, detail: Detail, batch: Patients = None
    ) -> Derivatives:
        if batch is not None:
            raise ValueError("WebDISCO sums over all patients and has no batches.")
        moments = federation.ask(RiskSetSumsAt(self.setting, at.beta, detail))
        return breslow(moments, self.sums, at.beta, detail)
