"""What do questions about a network share? A setting, and the parameters they are asked at."""

from __future__ import annotations

import numpy as np

from fedcox.federation.network_setting import NetworkSetting
from fedcox.federation.query import AbstractAdditiveQuery, Summand
from fedcox.privacy.exposure import Exposure
from fedcox.survival.cohort import Cohort, FloatArray, IntArray

#: Limits on coefficients are not for the parameters of a network: see NetworkSetting.known.
NO_COEFFICIENTS = np.empty(0)


class AbstractNetworkQuery(AbstractAdditiveQuery[Summand]):
    """`theta` are the network's parameters, `alpha` one number per fitted interval."""

    agreed: NetworkSetting
    theta: FloatArray
    alpha: FloatArray

    @property
    def setting(self) -> NetworkSetting:
        return self.agreed

    @property
    def point(self) -> tuple[FloatArray, FloatArray]:
        return self.alpha, NO_COEFFICIENTS

    def chosen(self, cohort: Cohort) -> IntArray | None:
        """Rows of the cohort it is about, each once; None where it is about everybody."""
        return None

    def exposure(self, cohort: Cohort) -> Exposure:
        return self.agreed.exposure(cohort, self.chosen(cohort))
