"""What are loss, gradient and curvature at these parameters? The question of every solver."""

from __future__ import annotations

from dataclasses import dataclass

from fedcox.federation.batch import PatientBatch
from fedcox.federation.query import AbstractSumQuery
from fedcox.federation.setting import Setting
from fedcox.survival.cohort import Cohort, FloatArray
from fedcox.survival.derivatives import Derivatives, Detail


@dataclass(frozen=True, eq=False)
class DerivativesAt(AbstractSumQuery[Derivatives]):
    """Sums over a center's patients, or over its share of a batch."""

    agreed: Setting
    alpha: FloatArray
    beta: FloatArray
    detail: Detail
    batch: PatientBatch | None = None

    @property
    def name(self) -> str:
        batch = "" if self.batch is None else " of a batch"
        return f"{self.detail.value}{batch}"

    @property
    def numbers(self) -> int:
        return self.alpha.size + self.beta.size + (0 if self.batch is None else 4)

    @property
    def setting(self) -> Setting:
        return self.agreed

    def answer(self, cohort: Cohort) -> Derivatives:
        patients = self.agreed.prepared(cohort)
        if self.batch is not None:
            patients = patients.draw(self.batch.numbers())
        return patients.derivatives(self.agreed.link, self.alpha, self.beta, self.detail)

    def combine(self, left: Derivatives, right: Derivatives) -> Derivatives:
        return left + right

    def numbers_in(self, answer: Derivatives) -> int:
        return answer.numbers
