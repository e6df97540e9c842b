"""What are loss, gradient and curvature at these parameters? The question of every solver."""

from __future__ import annotations

from dataclasses import dataclass

from fedcox.federation.batch import Batch, CellBatch, EpochCells
from fedcox.federation.packing import pack_derivatives, unpack_derivatives
from fedcox.federation.query import AbstractSumQuery
from fedcox.federation.setting import Setting
from fedcox.survival.cohort import Cohort, FloatArray
from fedcox.survival.derivatives import Derivatives, Detail


@dataclass(frozen=True, eq=False)
class DerivativesAt(AbstractSumQuery[Derivatives]):
    """Sums over a center's patients, or over its share of a batch.

    With a network β are its weights. Neither a network nor a batch of cells has a curvature:
    they are for training by gradients.
    """

    agreed: Setting
    alpha: FloatArray
    beta: FloatArray
    detail: Detail
    batch: Batch | None = None

    @property
    def name(self) -> str:
        batch = "" if self.batch is None else f" of {self.batch.name}"
        return f"{self.agreed.predictor.prefix}{self.detail.value}{batch}"

    @property
    def numbers(self) -> int:
        return self.alpha.size + self.beta.size + (0 if self.batch is None else self.batch.sent)

    @property
    def setting(self) -> Setting:
        return self.agreed

    @property
    def point(self) -> tuple[FloatArray, FloatArray]:
        return self.alpha, self.beta

    @property
    def batched(self) -> bool:
        return self.batch is not None

    #: Losses are compared with each other, to their last digits.
    fine = 1

    def answer(self, cohort: Cohort) -> Derivatives:
        if isinstance(self.batch, CellBatch | EpochCells):
            if self.detail is not Detail.GRADIENT:
                raise ValueError("A batch of cells has a gradient and no curvature.")
            pairs = self.batch.pairs()
            return self.agreed.cell_gradient(cohort, pairs, self.alpha, self.beta)
        patients = self.agreed.prepared(cohort)
        if self.batch is not None:
            patients = patients.draw(self.batch.numbers())
        return patients.derivatives(self.agreed.link, self.alpha, self.beta, self.detail)

    def numbers_in(self, answer: Derivatives) -> int:
        return answer.numbers

    def pack(self, answer: Derivatives) -> FloatArray:
        return pack_derivatives(answer)

    def unpack(self, vector: FloatArray) -> Derivatives:
        spline = self.agreed.basis is not None
        sizes = self.alpha.size, self.beta.size
        return unpack_derivatives(vector, *sizes, self.detail, spline=spline)
