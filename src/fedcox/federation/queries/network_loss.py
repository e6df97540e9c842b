"""How well does a network do on patients it was not trained on? One number, for stopping."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from fedcox.federation.batch import HeldOut
from fedcox.federation.query import AbstractSumQuery
from fedcox.federation.setting import Setting
from fedcox.federation.sums import FieldSum
from fedcox.models.predictors.network import network_alone, of_network
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
class NetworkLossAt(AbstractSumQuery[HeldOutLoss]):
    """The loss of training, event weight included, summed over the held-out patients."""

    words: ClassVar = {
        f"network loss of {HeldOut.name}": "how well the network does: one number over "
        "patients it is not trained on"
    }

    agreed: Setting
    alpha: FloatArray
    beta: FloatArray
    held_out: HeldOut

    @property
    def numbers(self) -> int:
        return self.alpha.size + self.beta.size + 3

    @property
    def setting(self) -> Setting:
        return self.agreed

    @property
    def batched(self) -> bool:
        return True

    #: Losses are compared with each other, to their last digits.
    fine = None

    def faults(self, columns: int | None) -> Iterator[str]:
        """A network, and a point of the setting's."""
        yield from network_alone(self.agreed.predictor)
        yield from self.agreed.point_faults(self.alpha, self.beta)

    def answer_faults(self, answer: HeldOutLoss) -> Iterator[str]:
        """No center has more held-out patients than there are."""
        if answer.patients > self.held_out.size:
            yield "there are fewer held-out patients"

    def answer(self, cohort: Cohort) -> HeldOutLoss:
        held_out = of_network(self.agreed.prepared(cohort)).draw(self.held_out.numbers())
        return HeldOutLoss(held_out.patients, held_out.loss(self.alpha, self.beta))
