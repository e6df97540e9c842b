"""Many intervals: sums over risk sets from prefix sums, at a cost of patients + intervals.

No cell is visited where a power series can speak for it, so every distinct event time of a
hundred thousand patients – more than a billion cells – takes a fraction of a second.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedcox.survival.cohort import FloatArray, IntArray
from fedcox.survival.derivatives import (
    Curvature,
    Derivatives,
    Detail,
    beyond_numbers,
    risk_of,
)
from fedcox.survival.link import AbstractLink, Terms
from fedcox.survival.risk_order import Cells, RiskOrder
from fedcox.survival.risk_set_sums import (
    CellFunction,
    RiskSetSums,
    add_directly,
    add_patients,
    add_series,
    largest_v,
)
from fedcox.survival.weighted_square import weighted_square

#: How many patients may be summed over one by one in every interval.
_EXTREME = 64
#: Digits of the T×P block that a power series must give: nine to find the optimum with, which
#: costs no round, and thirteen where standard errors come from it.
_CROSS_TOLERANCE = {Detail.HESSIAN: 1e-9, Detail.INFORMATION: 1e-13}


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
