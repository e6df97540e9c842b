"""Cox's loss, as solvers see it: stratified by center, or of the pooled patients."""

from __future__ import annotations

from dataclasses import dataclass

from fedcox.federation.batch import PatientBatch
from fedcox.federation.queries.risk_set_sums import RiskSetSetting, RiskSetSumsAt
from fedcox.federation.queries.stratified_cox import CoxSetting, StratifiedCoxAt
from fedcox.federation.query import Federation
from fedcox.survival.cohort import FloatArray
from fedcox.survival.derivatives import Derivatives, Detail
from fedcox.survival.risk_set_moments import EventSums, breslow


@dataclass(frozen=True, eq=False)
class StratifiedCoxLoss:
    """Minus the log partial likelihood with every center as its own stratum; α is empty."""

    setting: CoxSetting

    def __call__(
        self,
        federation: Federation,
        alpha: FloatArray,
        beta: FloatArray,
        detail: Detail,
        batch: PatientBatch | None = None,
    ) -> Derivatives:
        return federation.ask(StratifiedCoxAt(self.setting, beta, detail, batch))


@dataclass(frozen=True, eq=False)
class WebDiscoLoss:
    """Breslow's log partial likelihood of the pooled patients, negative, from WebDISCO's sums.

    `sums` are those of all centers, on the scaled covariates. α is empty.
    """

    setting: RiskSetSetting
    sums: EventSums

    def __call__(
        self,
        federation: Federation,
        alpha: FloatArray,
        beta: FloatArray,
        detail: Detail,
        batch: PatientBatch | None = None,
    ) -> Derivatives:
        if batch is not None:
            raise ValueError("WebDISCO sums over all patients and has no batches.")
        moments = federation.ask(RiskSetSumsAt(self.setting, beta, detail))
        return breslow(moments, self.sums, beta, detail)
