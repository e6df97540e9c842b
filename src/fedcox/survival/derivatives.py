"""What is known of the loss at one point: value, gradient, curvature, as sums over patients.

The loss is −log L(α, β) = Σ_i Σ_m f(v_im) + Σ_events h(v), v_im = exp(α_m + β·x_i), over the
cells at risk; f and h belong to the link. `piece_sums.py` computes it in exact time,
the default; `cell_blocks.py` for few intervals of grouped time, `risk_prefixes.py` for many;
`preparation.py` chooses.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

import numpy as np

from fedcox.survival.cohort import FloatArray
from fedcox.survival.threads import in_order, parts

#: A predictor counts as no more, see `risk_of`.
HIGHEST = 650.0
#: Numbers weighted at a time: measured.
_BLOCK = 2**18
#: Up to so many columns a product of two matrices is quicker than half of a square; measured.
_FEW_COLUMNS = 20


class Detail(Enum):
    """How much of the curvature to compute, from nothing to all of it."""

    GRADIENT = "gradient"  # none
    DIAGONAL = "diagonal"  # T + P numbers
    BLOCK = "block"  # T-diagonal and P×P
    HESSIAN = "hessian"  # T-diagonal, T×P and P×P
    INFORMATION = "information"  # the same of the expected information


class Curvature(NamedTuple):  # made a thousand times a round: a tuple costs least
    """Second derivatives: α by α, α by β, and β by β (or its diagonal alone).

    Intervals have nothing to do with each other, so that α by α is a diagonal; numbers of a
    spline do, and have a square.
    """

    alpha: FloatArray  # (intervals,), or (numbers, numbers) of a spline
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
        alpha, beta = (
            len(part) * (len(part) + 1) // 2 if part.ndim == 2 else len(part)
            for part in (self.alpha, self.beta)
        )
        return alpha + (0 if self.cross is None else self.cross.size) + beta


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


def zero_derivatives(
    intervals: int, columns: int, detail: Detail, *, spline: bool = False
) -> Derivatives:
    """The derivatives of nobody, in the shapes that `detail` asks for."""
    curvature = None
    if detail is not Detail.GRADIENT:
        whole = detail in (Detail.HESSIAN, Detail.INFORMATION)
        square = (columns,) if detail is Detail.DIAGONAL else (columns, columns)
        cross = np.zeros((intervals, columns)) if whole else None
        alpha = (intervals, intervals) if whole and spline else (intervals,)
        curvature = Curvature(np.zeros(alpha), cross, np.zeros(square))
    return Derivatives(0.0, np.zeros(intervals), np.zeros(columns), curvature)


def beyond_numbers(intervals: int, columns: int, detail: Detail) -> Derivatives:
    """At a point so far out that nothing can be computed there: an infinite loss."""
    return zero_derivatives(intervals, columns, detail)._replace(loss=np.inf)


def risk_of(predictor: FloatArray) -> FloatArray:
    """exp(β·x), kept finite: far beyond any optimum, and zero times infinity is no number."""
    return np.asarray(np.exp(np.minimum(predictor, HIGHEST)))


def weighted_square(covariates: FloatArray, weight: FloatArray) -> FloatArray:
    """Σ_i w_i x_i x_iᵀ for w ≥ 0 and covariates (patients, columns): (columns, columns)."""
    columns = covariates.shape[1]
    size = max(256, _BLOCK // max(columns, 1))

    def square(part: slice) -> FloatArray:
        total = np.zeros((columns, columns))
        buffer = np.empty((min(size, part.stop - part.start), columns))
        for start in range(part.start, part.stop, size):
            here = slice(start, min(start + size, part.stop))
            rows = buffer[: here.stop - here.start]
            np.multiply(covariates[here], np.sqrt(weight[here])[:, None], out=rows)
            total += np.dot(rows.T, rows)  # unlike `@`, it lets other threads go on
        return total

    cut = parts(len(covariates), columns, least=4 * columns)
    return np.asarray(sum(in_order(square, cut)))


def square_of_columns(
    columns: FloatArray, weight: FloatArray, scratch: FloatArray
) -> FloatArray:
    """The same of a few patients laid out as (columns, patients).

    `scratch` is memory for as many columns and at least as many patients.
    """
    room = scratch[:, : weight.size]
    if len(columns) <= _FEW_COLUMNS:
        square = np.multiply(columns, 0.5 * weight, out=room) @ columns.T
        return np.asarray(square + square.T)
    rooted = np.multiply(columns, np.sqrt(np.maximum(weight, 0.0)), out=room)
    return np.asarray(rooted @ rooted.T)
