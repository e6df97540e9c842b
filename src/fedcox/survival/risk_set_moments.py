"""Cox's model from sums over risk sets at every event time: what WebDISCO sends.

The sums of several centers add up to those of their union, so the derivatives are the pooled
ones. But the sums at neighbouring event times differ by the patients who left in between: where
that is one patient, the ratio of the differences is that patient's covariates.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sparse

from fedcox.survival.cohort import BoolArray, Cohort, FloatArray, IntArray
from fedcox.survival.derivatives import Curvature, Derivatives, Detail
from fedcox.survival.scaling import Scaling

#: Beyond this a risk or the sum of many overflows, or vanishes.
_RANGE = 650.0


@dataclass(frozen=True, eq=False)
class EventSums:
    """How many events there are at each time, and the sum of x over all of them."""

    events: FloatArray  # (event times,)
    covariates: FloatArray  # (columns,)

    def __add__(self, other: EventSums) -> EventSums:
        return EventSums(self.events + other.events, self.covariates + other.covariates)


@dataclass(frozen=True, eq=False)
class RiskSetMoments:
    """Σ w, Σ w·x and as much of Σ w·x·xᵀ as was asked for, over everyone at risk at each time.

    `second` holds the diagonals, or the upper triangles row by row.
    """

    total: FloatArray  # (event times,)
    first: FloatArray  # (event times, columns)
    second: FloatArray | None  # (event times, columns or columns · (columns + 1) / 2)

    def __add__(self, other: RiskSetMoments) -> RiskSetMoments:
        second = None
        if self.second is not None and other.second is not None:
            second = self.second + other.second
        return RiskSetMoments(self.total + other.total, self.first + other.first, second)

    @property
    def numbers(self) -> int:
        return (
            self.total.size + self.first.size + (0 if self.second is None else self.second.size)
        )


@dataclass(frozen=True, eq=False)
class PatientsByTime:
    """Scaled covariates, latest time first, and how many patients are at risk at each time."""

    covariates: FloatArray  # (patients, columns)
    at_risk: IntArray  # (event times,) for increasing event times

    @classmethod
    def of(cls, cohort: Cohort, scaling: Scaling, times: FloatArray) -> PatientsByTime:
        order = np.argsort(-cohort.time, kind="stable")
        covariates = np.empty((cohort.patients, scaling.keep.size))
        scaling.apply(cohort.covariates[order], out=covariates, complete=cohort.complete)
        later = np.searchsorted(np.sort(cohort.time), times, side="left")
        return cls(covariates, cohort.patients - later)

    def moments(self, beta: FloatArray, detail: Detail) -> RiskSetMoments:
        """The sums at β, for increasing event times."""
        # No center knows the largest risk of all, so the range of exp is the only bound.
        risk = np.exp(np.clip(self.covariates @ beta, -_RANGE, _RANGE))
        rows = _RiskSetRows(risk, self.at_risk)
        total, first = rows.sums(np.ones((risk.size, 1)))[:, 0], rows.sums(self.covariates)
        if detail is Detail.GRADIENT:
            return RiskSetMoments(total, first, None)
        if detail is Detail.DIAGONAL:
            return RiskSetMoments(total, first, rows.sums(self.covariates**2))
        columns = self.covariates.shape[1]
        second = np.empty((self.at_risk.size, columns * (columns + 1) // 2))
        start = 0
        for column in range(columns):  # one row of the triangle at a time: memory stays small
            products = self.covariates[:, column:] * self.covariates[:, column : column + 1]
            second[:, start : start + columns - column] = rows.sums(products)
            start += columns - column
        return RiskSetMoments(total, first, second)


class _RiskSetRows:
    """Weighted sums over the patients at risk at each of the increasing event times."""

    def __init__(self, risk: FloatArray, at_risk: IntArray) -> None:
        bounds = np.concatenate(([0], at_risk[::-1])).astype(np.int32)
        people = int(bounds[-1])
        self._joining = sparse.csr_array(
            (risk[:people], np.arange(people, dtype=np.int32), bounds),
            shape=(at_risk.size, risk.size),
        )

    def sums(self, values: FloatArray) -> FloatArray:
        joining = np.asarray(self._joining @ values)
        return np.cumsum(joining, axis=0, out=joining)[::-1]


def event_sums(cohort: Cohort, mean: FloatArray, times: FloatArray) -> EventSums:
    """Events at each of the times, and Σ (x − mean) over them; what is missing counts zero."""
    happened: BoolArray = cohort.event & np.isin(cohort.time, times)
    places = np.searchsorted(times, cohort.time[happened])
    events = np.bincount(places, minlength=times.size).astype(np.float64)
    centered = np.nan_to_num(cohort.covariates[happened] - mean, copy=False, nan=0.0)
    return EventSums(events, centered.sum(axis=0))


def breslow(
    moments: RiskSetMoments, sums: EventSums, beta: FloatArray, detail: Detail
) -> Derivatives:
    """Minus Breslow's log partial likelihood and its derivatives, from the sums of everyone."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        means = moments.first / moments.total[:, None]
        loss = float(sums.events @ np.log(moments.total) - sums.covariates @ beta)
        gradient = sums.events @ means - sums.covariates
        curvature = None
        if moments.second is not None:
            curvature = _curvature(moments.total, moments.second, means, sums.events, detail)
    return Derivatives(loss, np.zeros(0), gradient, curvature)


def _curvature(
    total: FloatArray,
    second: FloatArray,
    means: FloatArray,
    events: FloatArray,
    detail: Detail,
) -> Curvature:
    packed = (events / total) @ second
    nothing = np.zeros(0)
    if detail is Detail.DIAGONAL:
        return Curvature(nothing, None, packed - events @ means**2)
    columns = means.shape[1]
    square = np.empty((columns, columns))
    upper = np.triu_indices(columns)
    square[upper] = packed
    square.T[upper] = packed
    weighted = means * np.sqrt(events)[:, None]
    square -= weighted.T @ weighted
    cross = None if detail is Detail.BLOCK else np.zeros((0, columns))
    return Curvature(nothing, cross, square)
