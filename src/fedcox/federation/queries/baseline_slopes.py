"""How far is the baseline from what was observed, the network as it is? By interval.

Training with weights, or for a fixed number of steps, leaves a baseline that ranks patients and
predicts nobody's survival. By these sums it is fitted again, without weights: the model whose
one covariate is the network's risk.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedcox.federation.packing import pack_derivatives, unpack_derivatives
from fedcox.federation.query import AbstractSumQuery
from fedcox.federation.setting import Setting
from fedcox.survival.cohort import Cohort, FloatArray
from fedcox.survival.derivatives import Derivatives, Detail, zero_derivatives


@dataclass(frozen=True, eq=False)
class BaselineSlopesAt(AbstractSumQuery[Derivatives]):
    """Loss and derivatives in α and in `slope`, (1,), which multiplies every risk.

    Sums over all patients, each with one risk: the mean of the patient's slide scores.
    """

    agreed: Setting
    alpha: FloatArray
    beta: FloatArray
    slope: FloatArray
    detail: Detail

    @property
    def name(self) -> str:
        return f"baseline {self.detail.value}"

    @property
    def numbers(self) -> int:
        return self.alpha.size + self.beta.size + 1

    @property
    def setting(self) -> Setting:
        return self.agreed

    #: Losses are compared with each other, to their last digits.
    fine = 1

    def answer(self, cohort: Cohort) -> Derivatives:
        if not cohort.patients:
            return zero_derivatives(self.alpha.size, 1, self.detail)
        scored = self.agreed.scored(cohort, self.beta)
        link = self.agreed.link
        with np.errstate(over="ignore"):  # a step too far is taken back by the solver
            return scored.derivatives(link, self.alpha, self.slope, self.detail)

    def numbers_in(self, answer: Derivatives) -> int:
        return answer.numbers

    def pack(self, answer: Derivatives) -> FloatArray:
        return pack_derivatives(answer)

    def unpack(self, vector: FloatArray) -> Derivatives:
        return unpack_derivatives(vector, self.alpha.size, 1, self.detail)
