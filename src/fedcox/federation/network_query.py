"""What do questions about a network share? A setting, and the parameters they are asked at."""

from __future__ import annotations

from collections.abc import Iterator

from fedcox.federation.network_setting import NetworkSetting
from fedcox.federation.query import AbstractAdditiveQuery, Summand
from fedcox.federation.sums import Shapes
from fedcox.survival.cohort import FloatArray


class AbstractNetworkQuery(AbstractAdditiveQuery[Summand]):
    """`theta` are the network's parameters, `alpha` one number per fitted interval."""

    agreed: NetworkSetting
    theta: FloatArray
    alpha: FloatArray

    @property
    def setting(self) -> NetworkSetting:
        return self.agreed

    def faults(self, columns: int | None) -> Iterator[str]:
        """One number for each parameter of the network and for each fitted interval."""
        yield from self.agreed.point_faults(self.theta, self.alpha)

    def shapes(self, columns: int | None) -> Shapes:
        """An answer has a number for each of the question's parameters."""
        return {"theta": self.theta.shape, "alpha": self.alpha.shape}
