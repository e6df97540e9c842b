"""The noised sums that private fits are made from: in none of them a patient can be seen.

Each patient adds a row of numbers that is no longer than the release's sensitivity; the rows
are those of `survival/bounded_shares.py`, or a network's gradients, cut at that length whatever
the question says.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from functools import partial

import numpy as np

from fedcox.errors import CohortError, InputError
from fedcox.federation.query import AbstractPrivateQuery
from fedcox.federation.setting import Setting
from fedcox.models.architecture import Inputs
from fedcox.models.network import network_of, of_network
from fedcox.privacy.release import GaussianRelease
from fedcox.survival.bounded_shares import (
    ScoreMetric,
    event_rows,
    information_rows,
    moment_rows,
    product_rows,
    score_rows,
)
from fedcox.survival.clipping import shortened
from fedcox.survival.cohort import BoolArray, Cohort, FloatArray, IntArray
from fedcox.survival.scaling import Scaling
from fedcox.survival.threads import in_order, parts
from fedcox.survival.time_grid import Pieces, TimeAtRisk

_BLOCK = 2**16  # numbers of rows that are held at a time
_RELEASE = 6  # numbers that describe a release
#: Rows of a table whose gradients are computed together, where a gradient has few numbers.
_TABLE_ROWS, _FEW_NUMBERS = 32, 2**17
_SLIDE_BLOCK = 2**22  # numbers of gradients over slides that are held at a time


class AbstractBoundedSum(AbstractPrivateQuery[FloatArray]):
    """A vector to which each patient adds a bounded row."""

    release: GaussianRelease

    @property
    @abstractmethod
    def size(self) -> int:
        """How many numbers the sum has."""

    @abstractmethod
    def rows(self, cohort: Cohort, patients: IntArray) -> FloatArray:
        """What these patients add, before it is cut: (patients, numbers)."""

    def summed(self, cohort: Cohort, patients: IntArray) -> FloatArray:
        total = partial(self._total, cohort, patients)
        # On the grid sums are exact, in whichever order.
        return sum(in_order(total, parts(patients.size, self.size)), np.zeros(self.size))

    def _total(
        self,
        cohort: Cohort,
        patients: IntArray,
        part: slice,
        *,
        bound: float | None = None,
        together: int | None = None,
    ) -> FloatArray:
        """Rows cut at `bound`, rounded one by one to the release's grid, and added up.

        The bound is the release's sensitivity, and rows of as many are held as one should,
        unless said otherwise.
        """
        resolution, chosen, sums = self.release.resolution, patients[part], np.zeros(self.size)
        bound = self.release.sensitivity if bound is None else bound
        step = together or max(1, _BLOCK // sums.size)
        units = 1.0 / resolution  # a power of two: exact
        for first in range(0, chosen.size, step):
            rows = shortened(self.rows(cohort, chosen[first : first + step]), bound)
            rows *= units
            sums += np.rint(rows, out=rows).sum(axis=0)
        return sums * resolution

    def pack(self, answer: FloatArray) -> FloatArray:
        return answer

    def unpack(self, vector: FloatArray) -> FloatArray:
        return vector


@dataclass(frozen=True, eq=False)
class NoisedLifeTable(AbstractBoundedSum):
    """In which cell of time each patient leaves, without the event and with it.

    Two rows, one after the other, as in `TimeAtRisk.leavers`: who comes to no cell first.
    """

    cells: Pieces
    release: GaussianRelease

    @property
    def name(self) -> str:
        return "noised life table"

    @property
    def numbers(self) -> int:
        return self.cells.numbers + _RELEASE

    @property
    def size(self) -> int:
        return 2 * (self.cells.intervals + 1)

    def summed(self, cohort: Cohort, patients: IntArray) -> FloatArray:
        if self.release.sensitivity < 1.0 or self.release.resolution > 1.0:
            return super().summed(cohort, patients)  # whoever asks so: rows are cut, or rounded
        return np.bincount(self._places(cohort, patients), minlength=self.size).astype(float)

    def rows(self, cohort: Cohort, patients: IntArray) -> FloatArray:
        rows = np.zeros((patients.size, self.size))
        rows[np.arange(patients.size), self._places(cohort, patients)] = 1.0
        return rows

    def _places(self, cohort: Cohort, patients: IntArray) -> IntArray:
        placed = self.cells.at_risk(cohort.time[patients], cohort.event[patients])
        cell = np.minimum(placed.intervals, self.cells.intervals)
        return np.asarray(cell + placed.event * (self.cells.intervals + 1))


@dataclass(frozen=True, eq=False)
class NoisedMoments(AbstractBoundedSum):
    """Sums of the covariates on a public scale, and of the squares of the numbers."""

    scaling: Scaling
    are_numbers: BoolArray
    release: GaussianRelease

    @property
    def name(self) -> str:
        return "noised covariate moments"

    @property
    def numbers(self) -> int:
        return self.scaling.numbers + self.are_numbers.size + _RELEASE

    @property
    def size(self) -> int:
        return int(self.are_numbers.size + np.count_nonzero(self.are_numbers))

    def rows(self, cohort: Cohort, patients: IntArray) -> FloatArray:
        return moment_rows(_scaled(self.scaling, cohort, patients), self.are_numbers)


@dataclass(frozen=True, eq=False)
class NoisedProducts(AbstractBoundedSum):
    """Squares and products of the covariates, as scaled."""

    scaling: Scaling
    cap: float
    release: GaussianRelease

    @property
    def name(self) -> str:
        return "noised covariate products"

    @property
    def numbers(self) -> int:
        return self.scaling.numbers + 1 + _RELEASE

    @property
    def size(self) -> int:
        return _triangle(int(self.scaling.keep.size) + 1)

    def rows(self, cohort: Cohort, patients: IntArray) -> FloatArray:
        return product_rows(_scaled(self.scaling, cohort, patients), self.cap)


@dataclass(frozen=True, eq=False)
class NoisedEventMoments(AbstractBoundedSum):
    """The covariates of those who have the event, by the piece in which they have it."""

    agreed: Setting
    cap: float
    release: GaussianRelease

    @property
    def name(self) -> str:
        return "noised event moments"

    @property
    def setting(self) -> Setting:
        return self.agreed

    @property
    def numbers(self) -> int:
        return 1 + _RELEASE

    @property
    def size(self) -> int:
        return self.agreed.intervals * self.agreed.columns

    def rows(self, cohort: Cohort, patients: IntArray) -> FloatArray:
        scaled = _scaled(self.agreed.scaling, cohort, patients)
        placed = self.agreed.placed(cohort).rows(patients)
        return event_rows(scaled, placed, self.agreed.intervals, self.cap)


class AbstractSumAt(AbstractBoundedSum):
    """A sum at some parameters, in a metric of standard deviations.

    Weights and the end of each patient's watch are those of `score_rows`.
    """

    agreed: Setting
    alpha: FloatArray
    beta: FloatArray
    metric: ScoreMetric
    reach: float

    @property
    def setting(self) -> Setting:
        return self.agreed

    @property
    def point(self) -> tuple[FloatArray, FloatArray]:
        return self.alpha, self.beta

    @property
    def numbers(self) -> int:
        return self.alpha.size + self.beta.size + self.metric.numbers + 2 + _RELEASE

    def _placed(self, cohort: Cohort, patients: IntArray) -> tuple[FloatArray, TimeAtRisk]:
        scaled = _scaled(self.agreed.scaling, cohort, patients)
        return scaled, self.agreed.placed(cohort).rows(patients)


@dataclass(frozen=True, eq=False)
class NoisedScoreAt(AbstractSumAt):
    """The slope of the log-likelihood, and what its rules leave out."""

    agreed: Setting
    alpha: FloatArray
    beta: FloatArray
    metric: ScoreMetric
    reach: float
    release: GaussianRelease

    @property
    def name(self) -> str:
        return "noised score"

    @property
    def size(self) -> int:
        return int(self.alpha.size + self.beta.size) + 2

    def rows(self, cohort: Cohort, patients: IntArray) -> FloatArray:
        placed = self._placed(cohort, patients)
        return score_rows(*placed, self.point, self.metric, self.reach)


@dataclass(frozen=True, eq=False)
class NoisedInformationAt(AbstractSumAt):
    """The information on the coefficients, and on them and the baseline together."""

    agreed: Setting
    alpha: FloatArray
    beta: FloatArray
    metric: ScoreMetric
    reach: float
    cap: float
    release: GaussianRelease

    @property
    def name(self) -> str:
        return "noised information"

    @property
    def size(self) -> int:
        columns = self.agreed.columns
        return _triangle(columns) + self.agreed.intervals * columns

    def rows(self, cohort: Cohort, patients: IntArray) -> FloatArray:
        placed = self._placed(cohort, patients)
        return information_rows(*placed, self.point, self.metric, self.reach, self.cap)


@dataclass(frozen=True, eq=False)
class ClippedNetworkGradientAt(AbstractBoundedSum):
    """The exact gradient of a network, β and then α, each patient's clipped.

    All slides of a patient, β and α together, make one row.
    """

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


def _scaled(scaling: Scaling, cohort: Cohort, patients: IntArray) -> FloatArray:
    """The covariates of these patients on this scale; what is missing is zero."""
    scaled = np.empty((patients.size, scaling.keep.size))
    scaling.apply(cohort.covariates[patients], out=scaled, complete=cohort.complete)
    return scaled


def _triangle(size: int) -> int:
    """Entries of a symmetric matrix on and above the diagonal."""
    return size * (size + 1) // 2
