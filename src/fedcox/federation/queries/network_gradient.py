"""What are loss and gradient of a network at these parameters? Asked at every step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedcox.federation.batch import EpochBatch, EpochCells
from fedcox.federation.network_query import AbstractNetworkQuery
from fedcox.federation.network_setting import NetworkSetting
from fedcox.federation.query import AbstractSumQuery
from fedcox.models.network_sum import NetworkSum
from fedcox.survival.cohort import Cohort, FloatArray


@dataclass(frozen=True, eq=False)
class NetworkGradientAt(AbstractNetworkQuery[NetworkSum], AbstractSumQuery[NetworkSum]):
    """Sums over a center's patients, or over its share of a batch."""

    agreed: NetworkSetting
    theta: FloatArray
    alpha: FloatArray
    batch: EpochBatch | EpochCells | None = None

    @property
    def name(self) -> str:
        batch = "" if self.batch is None else f" of {self.batch.name}"
        return f"network gradient{batch}"

    @property
    def numbers(self) -> int:
        return self.theta.size + self.alpha.size + (0 if self.batch is None else 8)

    @property
    def batched(self) -> bool:
        return self.batch is not None

    #: Losses are compared with each other, to their last digits.
    fine = 1

    def answer(self, cohort: Cohort) -> NetworkSum:
        agreed, rows = self.agreed, None
        if isinstance(self.batch, EpochCells):
            cells = agreed.cells(cohort, *self.batch.pairs())
            if not cells[0].size:
                return self._nothing
            patients = agreed.laid_out(cohort)
            return agreed.model.cell_gradient(self.theta, self.alpha, patients, *cells)
        if self.batch is not None:
            rows = agreed.rows(cohort, self.batch.numbers())
        if not (cohort.patients if rows is None else rows.size):
            return self._nothing
        return agreed.model.gradient(self.theta, self.alpha, agreed.laid_out(cohort), rows)

    @property
    def _nothing(self) -> NetworkSum:
        """The reply of a center that has nobody in the batch: no network is run for it."""
        return NetworkSum(0.0, np.zeros(self.theta.size), np.zeros(self.alpha.size))

    def numbers_in(self, answer: NetworkSum) -> int:
        return 1 + answer.theta.size + answer.alpha.size

    def pack(self, answer: NetworkSum) -> FloatArray:
        return np.concatenate([[answer.loss], answer.theta, answer.alpha])

    def unpack(self, vector: FloatArray) -> NetworkSum:
        ends = 1 + self.theta.size
        return NetworkSum(float(vector[0]), vector[1:ends], vector[ends:])
