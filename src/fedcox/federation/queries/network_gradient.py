"""What are loss and gradient of a network at these parameters? Asked at every step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

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

    words: ClassVar = {
        "network gradient": "the slope of the loss in every weight of a network and every "
        "interval"
    }
    parts = EpochBatch.name, EpochCells.name

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

    def faults(self, columns: int | None) -> Iterator[str]:
        """The point is one of the setting's, and so is a batch of cells."""
        yield from super().faults(columns)
        batch = self.batch
        if isinstance(batch, EpochCells) and batch.intervals != self.agreed.intervals:
            yield "the batch's intervals must be those that are fitted"

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
