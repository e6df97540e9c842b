"""The discrete-time model's loss, as solvers see it."""

from __future__ import annotations

from dataclasses import dataclass

from fedcox.federation.batch import PatientBatch
from fedcox.federation.queries.derivatives import DerivativesAt
from fedcox.federation.query import Federation
from fedcox.federation.setting import Setting
from fedcox.survival.cohort import FloatArray
from fedcox.survival.derivatives import Derivatives, Detail


@dataclass(frozen=True, eq=False)
class DiscreteTimeLoss:
    """−log L(α, β) under one setting."""

    setting: Setting

    def __call__(
        self,
        federation: Federation,
        alpha: FloatArray,
        beta: FloatArray,
        detail: Detail,
        batch: PatientBatch | None = None,
    ) -> Derivatives:
        return federation.ask(DerivativesAt(self.setting, alpha, beta, detail, batch))
