"""Many intervals: sums over risk sets from prefix sums, at a cost of patients + intervals.

What is summed is a function of v = exp(α_m)·exp(β·x_i), over every patient i who passes
interval m. Never one exponential per pair, never a patients × intervals array in memory: as a
power series, Σ_i Σ_m (a_m e_i)^k needs only sums of e^k over patients and of a^k over
intervals, however many pairs there are; where v is too large for that, directly, in blocks that
fit the cache. So every distinct event time of a hundred thousand patients – more than a billion
cells – takes a fraction of a second.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sparse

from fedcox.survival.cohort import BoolArray, FloatArray, IntArray
from fedcox.survival.derivatives import (
    Curvature,
    Derivatives,
    Detail,
    beyond_numbers,
    risk_of,
    weighted_square,
)
from fedcox.survival.link import AbstractLink, Terms
from fedcox.survival.risk_order import Cells, RiskOrder

#: Cells evaluated at a time in the direct sums: their arrays stay in the second-level cache.
_BLOCK_CELLS = 24_576
#: A series term this small beside the first one is below rounding.
_NEGLIGIBLE = 1e-17

#: A block v (intervals, patients) → Σ cost, slope and curvature cell by cell.
CellFunction = Callable[[FloatArray], tuple[float, FloatArray, FloatArray]]
#: How many patients may be summed over one by one in every interval.
_EXTREME = 64
#: Digits of the T×P block that a power series must give: nine to find the optimum with, which
#: costs no round, and thirteen where standard errors come from it.
_CROSS_TOLERANCE = {Detail.HESSIAN: 1e-9, Detail.INFORMATION: 1e-13}


@dataclass(eq=False)
class RiskSetSums:
    """Totals that grow as parts are added.

    cost of all cells; slope and curvature per patient and per interval; `cross`, if wanted, is
    Σ_i curvature_im x_i, (intervals, columns), with terms of a series left out that are below
    `cross_tolerance` beside the first.
    """

    cost: float
    slope_of_patient: FloatArray
    curvature_of_patient: FloatArray
    slope_of_interval: FloatArray
    curvature_of_interval: FloatArray
    cross: FloatArray | None
    cross_tolerance: float

    @classmethod
    def zero(
        cls, order: RiskOrder, *, cross: bool, cross_tolerance: float = 0.0
    ) -> RiskSetSums:
        patients, intervals = order.patients, order.surviving.size
        return cls(
            0.0,
            np.zeros(patients),
            np.zeros(patients),
            np.zeros(intervals),
            np.zeros(intervals),
            np.zeros((intervals, order.columns)) if cross else None,
            cross_tolerance,
        )


def largest_v(order: RiskOrder, a: FloatArray, e: FloatArray) -> FloatArray:
    """The largest v of each interval, over the patients who pass it."""
    so_far = np.concatenate([[0.0], np.maximum.accumulate(e)])
    return np.asarray(a * so_far[order.surviving])


def add_series(
    sums: RiskSetSums,
    order: RiskOrder,
    a: FloatArray,
    e: FloatArray,
    coefficients: tuple[FloatArray, FloatArray, FloatArray],
) -> None:
    """Add Σ_k c_k (a_m e_i)^k over all pairs; `a` is 0 in intervals that are left out.

    `coefficients` are those of cost, slope and curvature. A term is skipped up to the last
    interval where it is below rounding, and with it the patients who left by then.
    """
    cost, slope, curvature = coefficients
    reach = largest_v(order, a, e)
    power_e, power_a = e, a
    for k in range(1, cost.size + 1):
        if k > 1:
            needed = np.flatnonzero(reach ** (k - 1) > _NEGLIGIBLE)
            if not needed.size:
                break
            first = int(needed[0])
            people = int(order.surviving[first])
            power_e = power_e[:people] * e[:people]
            power_a = power_a * a
        else:
            first, people = 0, e.size
        _add_term(
            sums, order, power_a, power_e, first, (cost[k - 1], slope[k - 1], curvature[k - 1])
        )


def _add_term(
    sums: RiskSetSums,
    order: RiskOrder,
    power_a: FloatArray,
    power_e: FloatArray,
    first: int,
    factors: tuple[float, float, float],
) -> None:
    """One power: Σ_m a_m^k per patient, Σ_i e_i^k per interval, from interval `first` on."""
    people = power_e.size
    cumulative = np.concatenate([[0.0], np.cumsum(power_a[first:])])
    of_patient = power_e * cumulative[order.survived[:people] - first]
    prefix = np.concatenate([[0.0], np.cumsum(power_e)])
    of_interval = power_a[first:] * prefix[order.surviving[first:]]
    cost, slope, curvature = factors
    sums.cost += cost * float(of_interval.sum())
    if slope == curvature == 1.0:
        sums.slope_of_patient[:people] += of_patient
        sums.curvature_of_patient[:people] += of_patient
        sums.slope_of_interval[first:] += of_interval
        sums.curvature_of_interval[first:] += of_interval
    else:
        sums.slope_of_patient[:people] += slope * of_patient
        sums.curvature_of_patient[:people] += curvature * of_patient
        sums.slope_of_interval[first:] += slope * of_interval
        sums.curvature_of_interval[first:] += curvature * of_interval
    if sums.cross is not None:
        relevant = np.abs(curvature * of_interval) > sums.cross_tolerance * np.abs(
            sums.curvature_of_interval[first:]
        )
        if relevant.any():
            first += int(np.argmax(relevant))
            _add_cross(sums.cross, order, curvature * power_a, power_e, first)


def _add_cross(
    cross: FloatArray, order: RiskOrder, factor: FloatArray, power_e: FloatArray, first: int
) -> None:
    """Σ_i e_i^k x_i over each risk set: those who leave, added up from the last interval."""
    rows = order.surviving.size - first
    matrix = order.leaving
    people = int(matrix.indptr[rows])
    if first == 0:
        matrix.data = power_e[:people]
    else:
        matrix = sparse.csr_array(
            (power_e[:people], matrix.indices[:people], matrix.indptr[: rows + 1]),
            shape=(rows, order.patients),
        )
    sums = matrix @ order.covariates  # the last interval comes first
    np.cumsum(sums, axis=0, out=sums)
    sums *= factor[first:][::-1, None]
    cross[first:] += sums[::-1]


def add_directly(
    sums: RiskSetSums,
    order: RiskOrder,
    a: FloatArray,
    e: FloatArray,
    chosen: BoolArray,
    function: CellFunction,
) -> None:
    """Add `function(a_m e_i)` over all pairs in the `chosen` intervals, one by one."""
    index = np.flatnonzero(chosen)
    if not index.size or not order.patients:
        return
    a = a[index]
    # Patients stand in decreasing order: those at risk in the first chosen interval are a
    # prefix.
    people = int(order.surviving[index[0]])
    before = np.concatenate([[0], np.cumsum(chosen)])
    depth = before[order.survived[:people]]  # chosen intervals each patient is at risk in
    start = 0
    while start < people:
        deepest = int(depth[start])
        stop = min(people, start + max(64, _BLOCK_CELLS // deepest))
        v = np.multiply.outer(a[:deepest], e[start:stop])
        if depth[stop - 1] < deepest:
            v *= np.arange(deepest)[:, None] < depth[start:stop]  # v = 0 costs nothing
        cost, slope, curvature = function(v)
        rows = index[:deepest]
        sums.cost += cost
        sums.slope_of_patient[start:stop] += slope.sum(axis=0)
        sums.curvature_of_patient[start:stop] += curvature.sum(axis=0)
        sums.slope_of_interval[rows] += slope.sum(axis=1)
        sums.curvature_of_interval[rows] += curvature.sum(axis=1)
        if sums.cross is not None:
            sums.cross[rows] += curvature @ order.covariates[start:stop]
        start = stop


def add_patients(
    sums: RiskSetSums,
    order: RiskOrder,
    a: FloatArray,
    e: FloatArray,
    rows: IntArray,
    function: CellFunction,
) -> None:
    """Add `function(a_m e_i)` over all intervals of a few patients, one patient at a time."""
    for row in rows.tolist():
        depth = int(order.survived[row])
        cost, slope, curvature = function((a[:depth] * e[row])[:, None])
        sums.cost += cost
        sums.slope_of_patient[row] += slope.sum()
        sums.curvature_of_patient[row] += curvature.sum()
        sums.slope_of_interval[:depth] += slope[:, 0]
        sums.curvature_of_interval[:depth] += curvature[:, 0]
        if sums.cross is not None:
            sums.cross[:depth] += curvature * order.covariates[row]


@dataclass(frozen=True, eq=False)
class RiskPrefixes:
    """One center, through sums over the prefixes of its risk order."""

    order: RiskOrder

    def draw(self, numbers: IntArray) -> RiskPrefixes:
        """The patients with these study numbers, repeated as often as they are drawn."""
        return RiskPrefixes(self.order.draw(numbers))

    def derivatives(
        self, link: AbstractLink, alpha: FloatArray, beta: FloatArray, detail: Detail
    ) -> Derivatives:
        """Loss and derivatives at (α, β); overflow gives an infinite loss, no exception."""
        return _derivatives(self.order, link, alpha, beta, detail)


def _derivatives(
    order: RiskOrder, link: AbstractLink, alpha: FloatArray, beta: FloatArray, detail: Detail
) -> Derivatives:
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        a, e = order.rates(alpha), risk_of(order.covariates @ beta)
        if a is None:
            return beyond_numbers(alpha.size, beta.size, detail)
        sums = _passed(order, link, a, e, detail)
        if order.halves is not None:
            _add_cells(sums, order, order.halves, _half(link, a, e, order.halves))
        events = order.events
        _add_cells(sums, order, events, link.event(a[events.interval] * e[events.patient]))
        gradient = sums.slope_of_patient @ order.covariates
        curvature = None
        if detail is Detail.INFORMATION and not link.canonical:
            curvature = _information(order, link, a, e)
        elif detail is not Detail.GRADIENT:
            curvature = _curvature(order, sums, detail)
    return Derivatives(sums.cost, sums.slope_of_interval, gradient, curvature)


def _information(
    order: RiskOrder, link: AbstractLink, a: FloatArray, e: FloatArray
) -> Curvature:
    """Expected information: each cell at risk weighs as in a generalised linear model."""
    sums = RiskSetSums.zero(
        order, cross=True, cross_tolerance=_CROSS_TOLERANCE[Detail.INFORMATION]
    )
    series = (np.zeros_like(link.information_series),) * 2 + (link.information_series,)

    def cells(v: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        weight = link.information(v)
        return 0.0, weight, weight

    _add_passed(sums, order, a, e, series, link.information_radius, cells)
    for single, weight in ((order.events, 1.0), (order.halves, 0.5)):
        if single is not None:
            v = a[single.interval] * e[single.patient]
            nothing = np.zeros_like(v)
            terms = Terms(nothing, nothing, weight * link.information(v))
            _add_cells(sums, order, single, terms)
    return _curvature(order, sums, Detail.HESSIAN)


def _passed(
    order: RiskOrder, link: AbstractLink, a: FloatArray, e: FloatArray, detail: Detail
) -> RiskSetSums:
    cross = detail is Detail.HESSIAN or (detail is Detail.INFORMATION and link.canonical)
    sums = RiskSetSums.zero(
        order, cross=cross, cross_tolerance=_CROSS_TOLERANCE.get(detail, 0.0)
    )
    k = np.arange(1, link.series.size + 1)
    series = (link.series, k * link.series, k * k * link.series)
    _add_passed(sums, order, a, e, series, link.series_radius, link.at_risk_sum)
    return sums


def _add_passed(
    sums: RiskSetSums,
    order: RiskOrder,
    a: FloatArray,
    e: FloatArray,
    series: tuple[FloatArray, FloatArray, FloatArray],
    radius: float,
    cells: CellFunction,
) -> None:
    """All intervals that patients pass: by the series inside its radius, else one by one."""
    extreme = _extreme_patients(order, a, e, radius)
    if extreme.size:
        add_patients(sums, order, a, e, extreme, cells)
        e = e.copy()
        e[extreme] = 0.0
    direct = ~(largest_v(order, a, e) <= radius)
    if direct.any():
        add_directly(sums, order, a, e, direct, cells)
        a = np.where(direct, 0.0, a)
    if not direct.all():
        add_series(sums, order, a, e, series)


def _extreme_patients(
    order: RiskOrder, a: FloatArray, e: FloatArray, radius: float
) -> IntArray:
    """Rows of a few patients far out, who alone would push most intervals out of the radius.

    None where the pairs outside the radius are few anyway, as they are at the end of follow-up.
    """
    outside = ~(largest_v(order, a, e) <= radius)
    if order.surviving[outside].sum() <= _EXTREME * (e.size + a.size) or e.size <= _EXTREME:
        return np.empty(0, dtype=np.int64)
    place = e.size - _EXTREME
    return np.flatnonzero(e > np.partition(e, place)[place])


def _half(link: AbstractLink, a: FloatArray, e: FloatArray, cells: Cells) -> Terms:
    terms = link.at_risk(a[cells.interval] * e[cells.patient])
    return Terms(0.5 * terms.cost, 0.5 * terms.slope, 0.5 * terms.curvature)


def _add_cells(sums: RiskSetSums, order: RiskOrder, cells: Cells, terms: Terms) -> None:
    """Add single cells: at most one of a kind for each patient."""
    intervals = order.surviving.size
    sums.cost += float(terms.cost.sum())
    sums.slope_of_patient[cells.patient] += terms.slope
    sums.curvature_of_patient[cells.patient] += terms.curvature
    sums.slope_of_interval += np.bincount(cells.interval, terms.slope, intervals)
    sums.curvature_of_interval += np.bincount(cells.interval, terms.curvature, intervals)
    if sums.cross is not None:
        sums.cross += cells.sum_rows(terms.curvature, order.covariates)


def _curvature(order: RiskOrder, sums: RiskSetSums, detail: Detail) -> Curvature:
    weight = sums.curvature_of_patient
    if detail is Detail.DIAGONAL:
        beta = weight @ order.covariates**2
        return Curvature(sums.curvature_of_interval, None, beta)
    return Curvature(
        sums.curvature_of_interval,
        sums.cross,
        weighted_square(order.covariates, np.maximum(weight, 0.0)),
    )
