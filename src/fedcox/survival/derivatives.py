"""Loss, gradient and curvature of the discrete-time Cox model for one center's patients.

The loss is −log L(α, β) = Σ_i Σ_m f(v_im) + Σ_events h(v), v_im = exp(α_m + β·x_i), over the cells
at risk; f and h belong to the link. Everything here is a sum over patients, so centers add up.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

import numpy as np

from fedcox.survival.cohort import FloatArray
from fedcox.survival.link import AbstractLink, Terms
from fedcox.survival.risk_order import Cells, RiskOrder
from fedcox.survival.risk_set_sums import RiskSetSums, add_directly, add_series

#: Up to this many intervals the logit sums are taken pair by pair: cheaper than the series.
_DIRECT_INTERVALS = 300
#: Rows of the covariates weighted at a time: block and copy fit the second-level cache.
_BLOCK_ROWS = 1024


class Detail(Enum):
    """How much of the curvature to compute, from nothing to all of it."""

    GRADIENT = "gradient"  # none
    DIAGONAL = "diagonal"  # T + P numbers
    BLOCK = "block"  # T-diagonal and P×P
    HESSIAN = "hessian"  # T-diagonal, T×P and P×P
    INFORMATION = "information"  # the same of the expected information


#: Digits of the T×P block that a power series must give: nine to find the optimum with, which costs
#: no round, and thirteen where standard errors come from it.
_CROSS_TOLERANCE = {Detail.HESSIAN: 1e-9, Detail.INFORMATION: 1e-13}


class Curvature(NamedTuple):  # made a thousand times a round: a tuple costs least
    """Second derivatives: α by α (diagonal), α by β, and β by β (or its diagonal alone)."""

    alpha: FloatArray  # (intervals,)
    cross: FloatArray | None  # (intervals, columns)
    beta: FloatArray  # (columns, columns) or (columns,)

    def __add__(self, other: Curvature) -> Curvature:  # type: ignore[override]
        cross = None
        if self.cross is not None and other.cross is not None:
            cross = self.cross + other.cross
        return Curvature(self.alpha + other.alpha, cross, self.beta + other.beta)

    @property
    def numbers(self) -> int:
        """Distinct numbers: the symmetric block counts once."""
        beta = self.beta.shape[0]
        square = beta * (beta + 1) // 2 if self.beta.ndim == 2 else beta
        return self.alpha.size + (0 if self.cross is None else self.cross.size) + square


class Derivatives(NamedTuple):
    """Loss, its gradient, and as much curvature as was asked for. Sums, never means."""

    loss: float
    alpha: FloatArray  # (intervals,)
    beta: FloatArray  # (columns,)
    curvature: Curvature | None

    def __add__(self, other: Derivatives) -> Derivatives:  # type: ignore[override]
        curvature = None
        if self.curvature is not None and other.curvature is not None:
            curvature = self.curvature + other.curvature
        return Derivatives(
            self.loss + other.loss, self.alpha + other.alpha, self.beta + other.beta, curvature
        )

    @property
    def numbers(self) -> int:
        curvature = 0 if self.curvature is None else self.curvature.numbers
        return 1 + self.alpha.size + self.beta.size + curvature


def derivatives(
    order: RiskOrder,
    link: AbstractLink,
    alpha: FloatArray,
    beta: FloatArray,
    detail: Detail,
) -> Derivatives:
    """Loss and derivatives at (α, β); overflow gives an infinite loss, never an exception."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        a = np.exp(alpha)
        e = np.exp(order.covariates @ beta)
        sums = _at_risk(order, link, a, e, detail)
        if order.halves is not None:
            _add_cells(sums, order, order.halves, _half(link, a, e, order.halves))
        events = order.events
        _add_cells(sums, order, events, link.event(a[events.interval] * e[events.patient]))
        gradient = sums.slope_of_patient @ order.covariates
        curvature = None
        if detail is Detail.INFORMATION and not link.canonical:
            curvature = information(order, link, a, e)
        elif detail is not Detail.GRADIENT:
            curvature = _curvature(order, sums, detail)
    return Derivatives(sums.cost, sums.slope_of_interval, gradient, curvature)


def information(
    order: RiskOrder, link: AbstractLink, a: FloatArray, e: FloatArray
) -> Curvature:
    """Expected information: each cell at risk weighs as in a generalised linear model."""
    sums = RiskSetSums.zero(order, cross=True, cross_tolerance=_CROSS_TOLERANCE[Detail.INFORMATION])
    series = (np.zeros_like(link.information_series),) * 2 + (link.information_series,)
    largest = float(e.max(initial=0.0))
    direct = _direct(order, a, largest, link.information_radius)

    def cells(v: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        weight = link.information(v)
        return 0.0, weight, weight

    add_series(sums, order, np.where(direct, 0.0, a), e, series)
    add_directly(sums, order, a, e, direct, cells)
    if order.halves is not None:
        v = a[order.halves.interval] * e[order.halves.patient]
        weight = 0.5 * link.information(v)
        _add_cells(sums, order, order.halves, Terms(np.zeros_like(v), np.zeros_like(v), weight))
    return _curvature(order, sums, Detail.HESSIAN)


def _at_risk(
    order: RiskOrder, link: AbstractLink, a: FloatArray, e: FloatArray, detail: Detail
) -> RiskSetSums:
    cross = detail is Detail.HESSIAN or (detail is Detail.INFORMATION and link.canonical)
    sums = RiskSetSums.zero(
        order, cross=cross, cross_tolerance=_CROSS_TOLERANCE.get(detail, 0.0)
    )
    k = np.arange(1, link.series.size + 1)
    series = (link.series, k * link.series, k * k * link.series)
    direct = _direct(order, a, float(e.max(initial=0.0)), link.series_radius)
    if direct.any():
        add_directly(sums, order, a, e, direct, link.at_risk_sum)
        a = np.where(direct, 0.0, a)
    if not direct.all():
        add_series(sums, order, a, e, series)
    return sums


def _direct(order: RiskOrder, a: FloatArray, largest: float, radius: float) -> np.ndarray:
    """Intervals whose cells are summed one by one."""
    if radius == np.inf:
        return np.zeros(a.shape, dtype=np.bool_)
    if a.size <= _DIRECT_INTERVALS:
        return np.ones(a.shape, dtype=np.bool_)
    return ~(a * largest <= radius)


def _half(link: AbstractLink, a: FloatArray, e: FloatArray, cells: Cells) -> Terms:
    terms = link.at_risk(a[cells.interval] * e[cells.patient])
    return Terms(0.5 * terms.cost, 0.5 * terms.slope, 0.5 * terms.curvature)


def _add_cells(sums: RiskSetSums, order: RiskOrder, cells: Cells, terms: Terms) -> None:
    """Add single cells: at most one of a kind for each patient."""
    intervals = order.at_risk.size
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
        sums.curvature_of_interval, sums.cross, weighted_square(order.covariates, weight)
    )


def weighted_square(covariates: FloatArray, weight: FloatArray) -> FloatArray:
    """Σ_i w_i x_i x_iᵀ, w ≥ 0, block by block: (columns, columns)."""
    root = np.sqrt(np.maximum(weight, 0.0))[:, None]
    columns = covariates.shape[1]
    total = np.zeros((columns, columns))
    buffer = np.empty((_BLOCK_ROWS, columns))
    for start in range(0, covariates.shape[0], _BLOCK_ROWS):
        block = covariates[start : start + _BLOCK_ROWS]
        rows = buffer[: len(block)]
        np.multiply(block, root[start : start + _BLOCK_ROWS], out=rows)
        total += rows.T @ rows
    return total
