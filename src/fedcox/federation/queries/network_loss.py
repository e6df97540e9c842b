"""How well does a network do on patients it was not trained on? One number, for stopping."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedcox.federation.batch import HeldOut
from fedcox.federation.query import AbstractSumQuery
from fedcox.federation.setting import Setting
from fedcox.models.network import of_network
from fedcox.survival.cohort import Cohort, FloatArray


@dataclass(frozen=True)
class HeldOutLoss:
    """Patients, and the loss summed over them."""

    patients: int
    loss: float

    def __add__(self, other: HeldOutLoss) -> HeldOutLoss:
        return HeldOutLoss(self.patients + other.patients, self.loss + other.loss)


@dataclass(frozen=True, eq=False)
class NetworkLossAt(AbstractSumQuery[HeldOutLoss]):
    """The loss of training, event weight included, summed over the held-out patients."""

    agreed: Setting
    alpha: FloatArray
    beta: FloatArray
    held_out: HeldOut

    @property
    def name(self) -> str:
        return f"network loss of {self.held_out.name}"

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

    def answer(self, cohort: Cohort) -> HeldOutLoss:
        held_out = of_network(self.agreed.prepared(cohort)).draw(self.held_out.numbers())
        return HeldOutLoss(held_out.patients, held_out.loss(self.alpha, self.beta))

    def pack(self, answer: HeldOutLoss) -> FloatArray:
        return np.array([answer.patients, answer.loss], dtype=np.float64)

    def unpack(self, vector: FloatArray) -> HeldOutLoss:
        return HeldOutLoss(round(vector[0]), float(vector[1]))
