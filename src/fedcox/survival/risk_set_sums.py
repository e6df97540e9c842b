"""Sums of a function of v = exp(α_m)·exp(β·x_i) over every patient i who passes interval m.

Never one exponential per pair, never a patients × intervals array in memory:

* as a power series, Σ_i Σ_m (a_m e_i)^k needs only sums of e^k over patients and of a^k over
  intervals: cost patients + intervals, however many pairs there are;
* where v is too large for that, directly, in blocks that fit the cache.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sparse

from fedcox.survival.cohort import BoolArray, FloatArray, IntArray
from fedcox.survival.risk_order import RiskOrder

#: Cells evaluated at a time in the direct sums: their arrays stay in the second-level cache.
_BLOCK_CELLS = 24_576
#: A series term this small beside the first one is below rounding.
_NEGLIGIBLE = 1e-17

#: A block v (intervals, patients) → Σ cost, slope and curvature cell by cell.
CellFunction = Callable[[FloatArray], tuple[float, FloatArray, FloatArray]]


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
