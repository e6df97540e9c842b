"""What do questions about a network share? A setting, and the parameters they are asked at."""

from __future__ import annotations

from fedcox.federation.network_setting import NetworkSetting
from fedcox.federation.query import AbstractAdditiveQuery, Summand
from fedcox.survival.cohort import FloatArray


class AbstractNetworkQuery(AbstractAdditiveQuery[Summand]):
    """`theta` are the network's parameters, `alpha` one number per fitted interval."""

    agreed: NetworkSetting
    theta: FloatArray
    alpha: FloatArray

    @property
    def setting(self) -> NetworkSetting:
        return self.agreed
