"""How well does a network do on patients it was not trained on? One number, for stopping."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from fedcox.federation.batch import HeldOut
from fedcox.federation.network_query import AbstractNetworkQuery
from fedcox.federation.network_setting import NetworkSetting
from fedcox.federation.query import AbstractSumQuery
from fedcox.federation.sums import FieldSum, Shapes
from fedcox.survival.bounds import patients_counted
from fedcox.survival.cohort import Cohort, FloatArray


@dataclass(frozen=True)
class HeldOutLoss(FieldSum):
    """Patients, and the loss summed over them."""

    patients: int
    loss: float

    def faults(self, columns: int | None) -> Iterator[str]:
        yield from patients_counted(self.patients)


@dataclass(frozen=True, eq=False)
class NetworkLossAt(AbstractNetworkQuery[HeldOutLoss], AbstractSumQuery[HeldOutLoss]):
    """The loss of training, event weight included, summed over the held-out patients."""

    words: ClassVar = {
        f"network loss of {HeldOut.name}": "how well the network does: one number over "
        "patients it is not trained on"
    }

    agreed: NetworkSetting
    theta: FloatArray
    alpha: FloatArray
    held_out: HeldOut

    @property
    def numbers(self) -> int:
        return self.theta.size + self.alpha.size + 3

    @property
    def batched(self) -> bool:
        return True

    #: Losses are compared with each other, to their last digits.
    fine = None

    def shapes(self, columns: int | None) -> Shapes:
        return {}

    def answer_faults(self, answer: HeldOutLoss) -> Iterator[str]:
        """No center has more held-out patients than there are."""
        if answer.patients > self.held_out.size:
            yield "there are fewer held-out patients"

    def answer(self, cohort: Cohort) -> HeldOutLoss:
        agreed = self.agreed
        rows = agreed.rows(cohort, self.held_out.numbers())
        if not rows.size:
            return HeldOutLoss(0, 0.0)
        loss = agreed.model.loss(self.theta, self.alpha, agreed.laid_out(cohort), rows)
        return HeldOutLoss(int(rows.size), loss)
