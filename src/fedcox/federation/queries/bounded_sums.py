"""The noised sums that private fits are made from: in none of them a patient can be seen.

Each patient adds a row of numbers that is no longer than the release's sensitivity; the rows
are those of `survival/bounded_rows.py` and `survival/bounded_shares.py`, cut at that length
whatever the question says.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from fedcox.federation.query import AbstractPrivateQuery
from fedcox.federation.setting import Setting
from fedcox.federation.sums import Shapes, triangle
from fedcox.models.predictors.linear import linear_alone
from fedcox.privacy.noise import GaussianRelease
from fedcox.survival.bounded_rows import (
    event_rows,
    moment_rows,
    product_rows,
    shortened,
)
from fedcox.survival.bounded_shares import (
    ScoreMetric,
    information_rows,
    score_rows,
)
from fedcox.survival.bounds import positive, shaped
from fedcox.survival.cohort import BoolArray, Cohort, FloatArray, IntArray
from fedcox.survival.scaling import Scaling
from fedcox.survival.threads import in_order, parts
from fedcox.survival.time_at_risk import TimeAtRisk
from fedcox.survival.time_grid import Pieces

_BLOCK = 2**16  # numbers of rows that are held at a time
_RELEASE = 6  # numbers that describe a release


class AbstractBoundedSum(AbstractPrivateQuery[FloatArray]):
    """A vector to which each patient adds a bounded row."""

    by_default = True

    release: GaussianRelease

    @property
    @abstractmethod
    def size(self) -> int:
        """How many numbers the sum has."""

    def shapes(self, columns: int | None) -> Shapes:
        return {"": (self.size,)}

    # A vector already: whoever follows a round of a private fit need not read how others are.

    def pack(self, answer: FloatArray) -> FloatArray:
        return answer

    def unpack(self, vector: FloatArray) -> FloatArray:
        return vector

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


@dataclass(frozen=True, eq=False)
class NoisedLifeTable(AbstractBoundedSum):
    """In which cell of time each patient leaves, without the event and with it.

    Two rows, one after the other, as in `TimeAtRisk.leavers`: who comes to no cell first.
    """

    words: ClassVar = {
        "noised life table": "how many patients leave in each cell of time, with and "
        "without the event, with noise"
    }

    cells: Pieces
    release: GaussianRelease

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

    words: ClassVar = {
        "noised covariate moments": "sums of the covariates and of their squares, with noise"
    }

    scaling: Scaling
    are_numbers: BoolArray
    release: GaussianRelease

    @property
    def numbers(self) -> int:
        return self.scaling.numbers + self.are_numbers.size + _RELEASE

    @property
    def size(self) -> int:
        return int(self.are_numbers.size + np.count_nonzero(self.are_numbers))

    def faults(self, columns: int | None) -> Iterator[str]:
        """Every column kept is a number or a level."""
        kept = self.scaling.keep.shape
        yield from shaped("are_numbers", self.are_numbers, kept, "one for each column kept")

    def rows(self, cohort: Cohort, patients: IntArray) -> FloatArray:
        return moment_rows(_scaled(self.scaling, cohort, patients), self.are_numbers)


@dataclass(frozen=True, eq=False)
class NoisedProducts(AbstractBoundedSum):
    """Squares and products of the covariates, as scaled."""

    words: ClassVar = {
        "noised covariate products": "squares and products of the covariates, with noise"
    }

    scaling: Scaling
    cap: float
    release: GaussianRelease

    @property
    def numbers(self) -> int:
        return self.scaling.numbers + 1 + _RELEASE

    @property
    def size(self) -> int:
        return triangle(int(self.scaling.keep.size) + 1)

    def faults(self, columns: int | None) -> Iterator[str]:
        yield from positive("cap", self.cap)

    def rows(self, cohort: Cohort, patients: IntArray) -> FloatArray:
        return product_rows(_scaled(self.scaling, cohort, patients), self.cap)


@dataclass(frozen=True, eq=False)
class NoisedEventMoments(AbstractBoundedSum):
    """The covariates of those who have the event, by the piece in which they have it."""

    words: ClassVar = {
        "noised event moments": "sums of the covariates of those with the event, with noise"
    }

    agreed: Setting
    cap: float
    release: GaussianRelease

    @property
    def setting(self) -> Setting:
        return self.agreed

    @property
    def numbers(self) -> int:
        return 1 + _RELEASE

    @property
    def size(self) -> int:
        return self.agreed.intervals * self.agreed.columns

    def faults(self, columns: int | None) -> Iterator[str]:
        yield from linear_alone(self.agreed.predictor)
        yield from positive("cap", self.cap)

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

    def faults(self, columns: int | None) -> Iterator[str]:
        """The point and the metric are of one setting; the reach bounds."""
        yield from linear_alone(self.agreed.predictor)
        yield from self.agreed.point_faults(self.alpha, self.beta)
        shape = self.alpha.shape + self.beta.shape
        yield from shaped("means", self.metric.means, shape, "one row for each piece")
        yield from positive("reach", self.reach)

    def _placed(self, cohort: Cohort, patients: IntArray) -> tuple[FloatArray, TimeAtRisk]:
        scaled = _scaled(self.agreed.scaling, cohort, patients)
        return scaled, self.agreed.placed(cohort).rows(patients)


@dataclass(frozen=True, eq=False)
class NoisedScoreAt(AbstractSumAt):
    """The slope of the log-likelihood, and what its rules leave out."""

    words: ClassVar = {
        "noised score": "the slope of the log-likelihood, each patient's share bounded, "
        "with noise"
    }

    agreed: Setting
    alpha: FloatArray
    beta: FloatArray
    metric: ScoreMetric
    reach: float
    release: GaussianRelease

    @property
    def size(self) -> int:
        return int(self.alpha.size + self.beta.size) + 2

    def rows(self, cohort: Cohort, patients: IntArray) -> FloatArray:
        placed = self._placed(cohort, patients)
        return score_rows(*placed, (self.alpha, self.beta), self.metric, self.reach)


@dataclass(frozen=True, eq=False)
class NoisedInformationAt(AbstractSumAt):
    """The information on the coefficients, and on them and the baseline together."""

    words: ClassVar = {
        "noised information": "the curvature of the log-likelihood, each patient's share "
        "bounded, with noise"
    }

    agreed: Setting
    alpha: FloatArray
    beta: FloatArray
    metric: ScoreMetric
    reach: float
    cap: float
    release: GaussianRelease

    @property
    def size(self) -> int:
        columns = self.agreed.columns
        return triangle(columns) + self.agreed.intervals * columns

    def faults(self, columns: int | None) -> Iterator[str]:
        yield from super().faults(columns)
        yield from positive("cap", self.cap)

    def rows(self, cohort: Cohort, patients: IntArray) -> FloatArray:
        placed = self._placed(cohort, patients)
        point = self.alpha, self.beta
        return information_rows(*placed, point, self.metric, self.reach, self.cap)


def _scaled(scaling: Scaling, cohort: Cohort, patients: IntArray) -> FloatArray:
    """The covariates of these patients on this scale; what is missing is zero."""
    scaled = np.empty((patients.size, scaling.keep.size))
    scaling.apply(cohort.covariates[patients], out=scaled, complete=cohort.complete)
    return scaled
