"""What is a network's gradient, if no patient may weigh much in it? For private training."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedcox.errors import CohortError, InputError
from fedcox.federation.queries.bounded_sums import AbstractBoundedSum
from fedcox.federation.setting import Setting
from fedcox.models.architecture import Inputs
from fedcox.models.predictors.network import network_alone, network_of, of_network
from fedcox.privacy.noise import GaussianRelease
from fedcox.survival.cohort import Cohort, FloatArray, IntArray

#: Rows of a table whose gradients are computed together, where a gradient has few numbers.
_TABLE_ROWS, _FEW_NUMBERS = 32, 2**17
_SLIDE_BLOCK = 2**22  # numbers of gradients over slides that are held at a time


@dataclass(frozen=True, eq=False)
class ClippedNetworkGradientAt(AbstractBoundedSum):
    """The exact gradient of a network, β and then α, each patient's clipped.

    All slides of a patient, β and α together, make one row.
    """

    words: ClassVar = {
        "clipped network gradient": "the slope in every weight of a network, each patient's "
        "share, with all slides, cut to a fixed length, with noise"
    }
    parts = ("a sample",)

    agreed: Setting
    alpha: FloatArray
    beta: FloatArray
    release: GaussianRelease

    def __post_init__(self) -> None:
        if not self.bound > 0:
            raise InputError(
                "A gradient of so many numbers is lost in the rounding of so much noise.",
                [
                    f"There are {self.size:,} numbers, and noise of "
                    f"{self.release.noise_multiplier:g} times a patient's share. Take a "
                    "smaller network, fewer steps, or a larger epsilon."
                ],
            )

    @property
    def name(self) -> str:
        sampled = " of a sample" if self.release.sampling_rate < 1 else ""
        return f"clipped network gradient{sampled}"

    @property
    def setting(self) -> Setting:
        return self.agreed

    @property
    def numbers(self) -> int:
        return self.size + 5

    @property
    def size(self) -> int:
        return int(self.beta.size + self.alpha.size)

    def faults(self, columns: int | None) -> Iterator[str]:
        """A network, and a point of the setting's."""
        yield from network_alone(self.agreed.predictor)
        yield from self.agreed.point_faults(self.alpha, self.beta)

    @property
    def bound(self) -> float:
        """The most that a row may be long before it is rounded.

        Rounding may add half a unit of the grid in every direction, of which there are many.
        """
        return self.release.sensitivity - 0.5 * math.sqrt(self.size) * self.release.resolution

    @property
    def together(self) -> int:
        """Of how many patients gradients are held at a time."""
        if self._reads_rows:
            return _TABLE_ROWS if self.size <= _FEW_NUMBERS else 1
        return max(1, _SLIDE_BLOCK // self.size)

    @property
    def _reads_rows(self) -> bool:
        """Whether the network reads a table alone; slides go through it one by one."""
        return self._inputs == "table"

    @property
    def _inputs(self) -> Inputs:
        return network_of(self.agreed.predictor).architecture.inputs

    def summed(self, cohort: Cohort, patients: IntArray) -> FloatArray:
        if not patients.size:
            return np.zeros(self.size)
        self._check_columns(cohort)
        # In one part: torch has threads of its own.
        together = self.together
        return self._total(cohort, patients, slice(None), bound=self.bound, together=together)

    def rows(self, cohort: Cohort, patients: IntArray) -> FloatArray:
        """Gradients, each to the last bit the same whoever else is drawn."""
        prepared = of_network(self.agreed.prepared(cohort))
        # How a matrix product rounds depends on how many rows it has: they are always as many.
        filled = np.resize(patients, self.together) if self._reads_rows else patients
        blocks = list(prepared.patient_gradients(self.alpha, self.beta, filled))
        return np.concatenate(blocks)[: patients.size]

    def _check_columns(self, cohort: Cohort) -> None:
        """Of a scale from public ranges no column is left out, as a constant one would be."""
        scaled = self.agreed.columns
        if (
            network_of(self.agreed.predictor).architecture.inputs != "bags"
            and scaled != cohort.columns
        ):
            raise CohortError(
                f"There are ranges of {scaled} columns, and patients have {cohort.columns}.",
                ["Give the public range of every column, low and high."],
            )
