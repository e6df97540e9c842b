"""What is a network's gradient? A reply in which no patient can be seen."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fedcox.errors import CohortError
from fedcox.federation.network_setting import NetworkSetting
from fedcox.federation.queries.network_gradient import NO_COEFFICIENTS
from fedcox.federation.query import AbstractPrivateQuery
from fedcox.privacy.exposure import Exposure
from fedcox.privacy.noise import Randomness, chosen_by_chance
from fedcox.privacy.release import GaussianRelease
from fedcox.survival.clipping import on_grid, shortened
from fedcox.survival.cohort import Cohort, FloatArray, IntArray

#: Rows of a table whose gradients are computed together, where a gradient has few numbers.
_ROWS, _FEW_NUMBERS = 32, 2**17


@dataclass(frozen=True, eq=False)
class ClippedNetworkSum:
    """Patients' shares, added up."""

    theta: FloatArray  # (parameters of the network,)
    alpha: FloatArray  # (intervals,)

    def __add__(self, other: ClippedNetworkSum) -> ClippedNetworkSum:
        return ClippedNetworkSum(self.theta + other.theta, self.alpha + other.alpha)


@dataclass(frozen=True, eq=False)
class ClippedNetworkGradientAt(AbstractPrivateQuery[ClippedNetworkSum]):
    """Sums of patients' exact gradients, each clipped to the release's sensitivity.

    All slides of a patient, θ and α together, make one vector, and that vector is shortened if
    it is too long. The center draws the patients in secret, by the release's sampling rate, and
    adds the noise itself.
    """

    agreed: NetworkSetting
    theta: FloatArray
    alpha: FloatArray
    release: GaussianRelease

    @property
    def name(self) -> str:
        sampled = " of a sample" if self.release.sampling_rate < 1 else ""
        return f"clipped network gradient{sampled}"

    @property
    def numbers(self) -> int:
        return self.theta.size + self.alpha.size + 5

    @property
    def setting(self) -> NetworkSetting:
        return self.agreed

    @property
    def point(self) -> tuple[FloatArray, FloatArray]:
        return self.alpha, NO_COEFFICIENTS

    @property
    def bits(self) -> int:
        return self.release.bits

    def exposure(self, cohort: Cohort) -> Exposure:
        return self.agreed.exposure(cohort)

    def answer(self, cohort: Cohort) -> ClippedNetworkSum:
        """Over everybody and without noise: what the noised replies are right on average."""
        return self._summed(cohort, np.arange(cohort.patients))

    def private_answer(self, cohort: Cohort, randomness: Randomness) -> ClippedNetworkSum:
        drawn = chosen_by_chance(cohort.patients, self.release.sampling_rate, randomness)
        return self._summed(cohort, np.flatnonzero(drawn))

    def _summed(self, cohort: Cohort, rows: IntArray) -> ClippedNetworkSum:
        total = np.zeros(self.theta.size + self.alpha.size)
        # Rounding may add half a unit of the grid in every direction, of which there are many.
        room = 0.5 * math.sqrt(total.size) * self.release.resolution
        for block in self._gradients(cohort, rows):
            shares = shortened(block, self.release.sensitivity - room)
            # Rounded one by one: sums of these are exact, in whichever order.
            total += on_grid(shares, self.release.resolution).sum(axis=0)
        return self.unpack(total)

    def _gradients(self, cohort: Cohort, rows: IntArray) -> Iterator[FloatArray]:
        """Patients' gradients, each to the last bit the same whoever else is drawn."""
        if not rows.size:
            return
        self._check_columns(cohort)
        patients, model = self.agreed.laid_out(cohort), self.agreed.model
        at = self.theta, self.alpha, patients
        if self.agreed.architecture.inputs != "table":  # slides go one by one
            yield from model.patient_gradients(*at, rows)
            return
        # How a matrix product rounds depends on how many rows it has: they are always as many.
        size = _ROWS if self.theta.size + self.alpha.size <= _FEW_NUMBERS else 1
        for first in range(0, rows.size, size):
            part = rows[first : first + size]
            filled = np.resize(part, size)
            block = np.concatenate(list(model.patient_gradients(*at, filled)))
            yield block[: part.size]

    def _check_columns(self, cohort: Cohort) -> None:
        """Of a scale from public ranges no column is left out, as a constant one would be."""
        scaled = self.agreed.timing.scaling.keep.size
        if self.agreed.architecture.inputs != "bags" and scaled != cohort.columns:
            raise CohortError(
                f"There are ranges of {scaled} columns, and patients have {cohort.columns}.",
                ["Give the public range of every column, low and high."],
            )

    def combine(self, left: ClippedNetworkSum, right: ClippedNetworkSum) -> ClippedNetworkSum:
        return left + right

    def numbers_in(self, answer: ClippedNetworkSum) -> int:
        return answer.theta.size + answer.alpha.size

    def pack(self, answer: ClippedNetworkSum) -> FloatArray:
        return np.concatenate([answer.theta, answer.alpha])

    def unpack(self, vector: FloatArray) -> ClippedNetworkSum:
        return ClippedNetworkSum(vector[: self.theta.size], vector[self.theta.size :])
