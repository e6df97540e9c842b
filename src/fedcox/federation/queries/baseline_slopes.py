"""How far is the baseline from what was observed, the network as it is? By interval.

Training with weights, or for a fixed number of steps, leaves a baseline that ranks patients and
predicts nobody's survival. By these sums it is fitted again, without weights: the model whose
one covariate is the network's risk.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedcox.federation.queries.derivatives import derivative_shapes
from fedcox.federation.query import AbstractSumQuery
from fedcox.federation.setting import Setting
from fedcox.federation.sums import Shapes
from fedcox.models.predictors.network import network_alone
from fedcox.survival.bounds import shaped
from fedcox.survival.cohort import Cohort, FloatArray
from fedcox.survival.derivatives import Derivatives, Detail, zero_derivatives


@dataclass(frozen=True, eq=False)
class BaselineSlopesAt(AbstractSumQuery[Derivatives]):
    """Loss and derivatives in α and in `slope`, (1,), which multiplies every risk.

    Sums over all patients, each with one risk: the mean of the patient's slide scores.
    """

    words: ClassVar = {
        "baseline gradient": "the slope of the log-likelihood in the baseline and in one "
        "factor of the network's risks",
        "baseline diagonal": "slope and curvature in the baseline, the network's risks as "
        "they are",
        "baseline hessian": "slope and curvature in the baseline and one factor of the "
        "network's risks",
        "baseline information": "the expected curvature in the same",
    }

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

    def faults(self, columns: int | None) -> Iterator[str]:
        """The point is one of a network's setting, with one factor of all risks."""
        yield from network_alone(self.agreed.predictor)
        yield from self.agreed.point_faults(self.alpha, self.beta)
        yield from shaped("slope", self.slope, (1,), "one for all risks")

    def shapes(self, columns: int | None) -> Shapes:
        return derivative_shapes(self.alpha.size, 1, self.detail)

    def answer(self, cohort: Cohort) -> Derivatives:
        if not cohort.patients:
            return zero_derivatives(self.alpha.size, 1, self.detail)
        scored = self.agreed.scored(cohort, self.beta)
        link = self.agreed.link
        with np.errstate(over="ignore"):  # a step too far is taken back by the solver
            return scored.derivatives(link, self.alpha, self.slope, self.detail)
