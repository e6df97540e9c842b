"""What is a network's gradient? A reply in which no patient can be seen."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedcox.errors import CohortError, InputError
from fedcox.federation.network_query import AbstractNetworkQuery
from fedcox.federation.network_setting import NetworkSetting
from fedcox.federation.query import AbstractPrivateQuery
from fedcox.federation.sums import FieldSum
from fedcox.privacy.noise import GaussianRelease
from fedcox.survival.bounded_shares import on_grid, shortened
from fedcox.survival.cohort import Cohort, FloatArray, IntArray

#: Rows of a table whose gradients are computed together, where a gradient has few numbers.
_ROWS, _FEW_NUMBERS = 32, 2**17


@dataclass(frozen=True, eq=False)
class ClippedNetworkSum(FieldSum):
    """Patients' shares, added up."""

    theta: FloatArray  # (parameters of the network,)
    alpha: FloatArray  # (intervals,)


@dataclass(frozen=True, eq=False)
class ClippedNetworkGradientAt(
    AbstractNetworkQuery[ClippedNetworkSum], AbstractPrivateQuery[ClippedNetworkSum]
):
    """Sums of patients' exact gradients, each clipped to the release's sensitivity.

    All slides of a patient, θ and α together, make one vector, and that vector is shortened if
    it is too long. The center draws the patients in secret, by the release's sampling rate, and
    adds the noise itself.
    """

    words: ClassVar = {
        "clipped network gradient": "the slope in every weight of a network, each patient's "
        "share, with all slides, cut to a fixed length, with noise"
    }
    parts = ("a sample",)
    by_default = True

    agreed: NetworkSetting
    theta: FloatArray
    alpha: FloatArray
    release: GaussianRelease

    def __post_init__(self) -> None:
        if not self._length > 0:
            raise InputError(
                "A gradient of so many numbers is lost in the rounding of so much noise.",
                [
                    f"There are {self.theta.size + self.alpha.size:,} numbers, and noise of "
                    f"{self.release.noise_multiplier:g} times a patient's share. Take a "
                    "smaller network, fewer steps, or a larger epsilon."
                ],
            )

    @property
    def _length(self) -> float:
        """The most that a patient's share may have before it is rounded.

        Rounding may add half a unit of the grid in every direction, of which there are many.
        """
        numbers = self.theta.size + self.alpha.size
        return self.release.sensitivity - 0.5 * math.sqrt(numbers) * self.release.resolution

    @property
    def name(self) -> str:
        sampled = " of a sample" if self.release.sampling_rate < 1 else ""
        return f"clipped network gradient{sampled}"

    @property
    def numbers(self) -> int:
        return self.theta.size + self.alpha.size + 5

    def summed(self, cohort: Cohort, patients: IntArray) -> ClippedNetworkSum:
        total = np.zeros(self.theta.size + self.alpha.size)
        for block in self._gradients(cohort, patients):
            shares = shortened(block, self._length)
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
