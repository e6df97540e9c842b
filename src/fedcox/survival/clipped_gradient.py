"""The gradient of −log L(α, β) in which no patient weighs more than a bound.

The unit is the patient, never a row of the stack: all cells of a patient, α and β together,
make one vector, and that vector is shortened if it is too long. With v_im = exp(α_m + β·x_i)
and s_im the slope of cell (i, m), patient i has

    g_i = (a s_i1, …, a s_iT, b (Σ_m s_im) x_i),      share = g_i · min(1, bound / |g_i|),

where a and b are public scales that say how the bound is divided between α and β.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedcox.survival.clipping import on_grid, shortened
from fedcox.survival.cohort import FloatArray, IntArray
from fedcox.survival.linear_predictor import linear_predictor
from fedcox.survival.link import AbstractLink
from fedcox.survival.single_cells import SingleCells

_BLOCK = 2**17  # numbers of shares that are held at a time
_FARTHEST = 650.0  # exp() of it, and of its negative, are finite and not zero


@dataclass(frozen=True)
class Clipping:
    """The longest a patient's share may be, and the scales of its α and β parts."""

    bound: float
    alpha_scale: float
    beta_scale: float


@dataclass(frozen=True, eq=False)
class ClippedSum:
    """Patients' shares, added up. Still on Clipping's scales."""

    alpha: FloatArray  # (intervals,)
    beta: FloatArray  # (columns,)

    def __add__(self, other: ClippedSum) -> ClippedSum:
        return ClippedSum(self.alpha + other.alpha, self.beta + other.beta)


def clipped_gradient(
    cells: SingleCells,
    link: AbstractLink,
    point: tuple[FloatArray, FloatArray],
    clipping: Clipping,
    *,
    patients: IntArray | None = None,
    resolution: float | None = None,
) -> ClippedSum:
    """The sum of the shares of all patients, or of those in the rows `patients`, at (α, β).

    With a `resolution`, a power of two, each share is rounded to multiples of it; sums of
    these are exact, in whichever order.
    """
    intervals, columns = point[0].size, point[1].size
    chosen = np.arange(cells.patients) if patients is None else patients
    total = np.zeros(intervals + columns)
    step = max(1, _BLOCK // (intervals + columns + 1))
    for first in range(0, chosen.size, step):
        shares = patient_shares(cells, link, point, clipping, chosen[first : first + step])
        if resolution is not None:
            shares = on_grid(shares, resolution)
        total += shares.sum(axis=0)
    return ClippedSum(total[:intervals], total[intervals:])


def patient_shares(
    cells: SingleCells,
    link: AbstractLink,
    point: tuple[FloatArray, FloatArray],
    clipping: Clipping,
    patients: IntArray,
) -> FloatArray:
    """One row per patient, none longer than the bound: (patients, intervals + columns).

    A patient whose numbers are too large to compute with has a share of zero.
    """
    covariates = cells.covariates[patients]
    slopes = cell_slopes(cells, link, point, patients)
    with np.errstate(over="ignore", invalid="ignore"):
        steepest = np.abs(slopes).max(axis=1, initial=0.0)
        where = steepest[:, None] > 0
        slopes = np.divide(slopes, steepest[:, None], out=np.zeros_like(slopes), where=where)
        pull = clipping.beta_scale * slopes.sum(axis=1, keepdims=True)
        rows = np.hstack([clipping.alpha_scale * slopes, pull * covariates])
    return shortened(rows, clipping.bound, steepest)


def cell_slopes(
    cells: SingleCells,
    link: AbstractLink,
    point: tuple[FloatArray, FloatArray],
    patients: IntArray,
) -> FloatArray:
    """The slope of each cell, zero where a patient is not at risk: (patients, intervals)."""
    alpha, beta = point
    with np.errstate(over="ignore", invalid="ignore"):
        # No matrix product: its last digits, and with them a patient's share, would depend on
        # who else is there.
        predictor = linear_predictor(cells.covariates[patients], beta)[:, None] + alpha
        v = np.exp(np.clip(predictor, -_FARTHEST, _FARTHEST))
    slopes = np.array(link.at_risk(v).slope)  # a copy: a link may give back what it got
    passed, event_at = cells.passed[patients], cells.event_at[patients]
    inside = np.flatnonzero(passed < alpha.size)
    slopes[inside, passed[inside]] *= cells.part[patients[inside]]
    happened = np.flatnonzero(event_at >= 0)
    at = happened, event_at[happened]
    slopes[at] += link.event(v[at]).slope
    slopes[np.arange(alpha.size) >= cells.rows[patients][:, None]] = 0.0
    return slopes
