"""What training a network sums over patients: loss and slopes. Needs no torch."""

from __future__ import annotations

from dataclasses import dataclass

from fedcox.survival.cohort import FloatArray


@dataclass(frozen=True, eq=False)
class NetworkSum:
    """Loss and gradient, summed over the samples of some patients; never a mean."""

    loss: float
    theta: FloatArray  # (weights,)
    alpha: FloatArray  # (intervals,)

    def __add__(self, other: NetworkSum) -> NetworkSum:
        return NetworkSum(
            self.loss + other.loss, self.theta + other.theta, self.alpha + other.alpha
        )
