"""A baseline with few parameters: the log hazard as a natural cubic spline of log time.

Hazards stay constant within pieces, and those of all pieces are given by a handful of numbers
γ: α_k = log(width_k) + B_k·γ, with one row of the basis B for each piece. What patients sum up
over pieces is handed on in terms of γ, so that no reply has more of it than there are of these.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedcox.errors import CohortError
from fedcox.survival.cohort import FloatArray, IntArray
from fedcox.survival.derivatives import Curvature, Derivatives, Detail
from fedcox.survival.link import AbstractLink
from fedcox.survival.preparation import PreparedPatients

_STEPS = 50  # at most, of a search that takes about six


def spline_basis(bounds: FloatArray, events: FloatArray, size: int) -> FloatArray:
    """One row for each piece between `bounds`, `size` columns: (pieces, size).

    A constant, log time, and natural cubic pieces between knots that have as many events
    between them. Where the events are, columns are not correlated and have a mean square of
    one, so that no number is large.
    """
    if np.count_nonzero(events) < size:
        raise CohortError(
            f"A smooth baseline of {size} numbers needs events at {size} times or more.",
            [
                f"There are {np.count_nonzero(events)}. Give a smaller df in the study's "
                '[model], or leave baseline = "spline" out.'
            ],
        )
    middle = 0.5 * (bounds[:-1] + bounds[1:])
    x = np.log(middle)
    happened = np.cumsum(events) / events.sum()
    shares = np.linspace(0.0, 1.0, size)
    knots = np.interp(shares, np.append(0.0, happened), np.log(_inner(bounds)))
    columns = [np.ones_like(x), x]
    if size > 2:
        last = _cubic(x, knots[-2], knots[-1])
        columns += [_cubic(x, knot, knots[-1]) - last for knot in knots[:-2]]
    rows = np.stack(columns)  # (size, pieces)
    root = np.linalg.cholesky((rows * (events / events.sum())) @ rows.T)
    return np.asarray(np.linalg.solve(root, rows).T)


def _inner(bounds: FloatArray) -> FloatArray:
    """Bounds that have a logarithm: zero stands for half of the next."""
    return np.where(bounds > 0, bounds, 0.5 * bounds[1])


def _cubic(x: FloatArray, knot: float, last: float) -> FloatArray:
    """The natural spline's building block of one knot beside the last."""
    return np.asarray(
        (np.maximum(x - knot, 0.0) ** 3 - np.maximum(x - last, 0.0) ** 3) / (last - knot)
    )


def without_effects(
    basis: FloatArray, offset: FloatArray, at_risk: FloatArray, events: FloatArray
) -> tuple[FloatArray, float]:
    """γ that is best for these counts by piece, without covariates, and the loss there."""
    # As if every piece had its own hazard, weighted by its events; a half for none.
    weight = np.maximum(events, 0.5)
    level = np.log(weight / np.maximum(at_risk, 0.5)) - offset
    root = np.sqrt(weight)
    gamma = np.asarray(np.linalg.lstsq(root[:, None] * basis, root * level)[0], np.float64)

    def loss(gamma: FloatArray) -> float:
        alpha = offset + basis @ gamma
        with np.errstate(over="ignore"):
            return float(at_risk @ np.exp(alpha) - events @ alpha)

    here = loss(gamma)
    for _ in range(_STEPS):
        expected = at_risk * np.exp(offset + basis @ gamma)
        information = basis.T @ (expected[:, None] * basis)
        step = np.linalg.solve(information, basis.T @ (events - expected))
        while (there := loss(gamma + step)) > here + 1e-12 * abs(here):
            step = 0.5 * step
        gamma, gain, here = gamma + step, here - there, there
        if gain <= 1e-12 * abs(here):
            break
    return gamma, here


@dataclass(frozen=True, eq=False)
class SplinePatients:
    """Patients who are asked at γ, and answer in γ."""

    patients: PreparedPatients
    basis: FloatArray  # (pieces, size)
    offset: FloatArray  # (pieces,) log widths

    def draw(self, numbers: IntArray) -> SplinePatients:
        """The patients with these study numbers, repeated as often as they are drawn."""
        return SplinePatients(self.patients.draw(numbers), self.basis, self.offset)

    def derivatives(
        self, link: AbstractLink, alpha: FloatArray, beta: FloatArray, detail: Detail
    ) -> Derivatives:
        """Loss and derivatives in γ (here `alpha`) and β."""
        pieces = self.patients.derivatives(link, self.offset + self.basis @ alpha, beta, detail)
        reply = pieces._replace(alpha=self.basis.T @ pieces.alpha)
        if pieces.curvature is None:
            return reply
        curved, cross, square = pieces.curvature
        if cross is None:
            return reply._replace(curvature=Curvature(curved @ self.basis**2, None, square))
        dense = self.basis.T @ (curved[:, None] * self.basis)
        return reply._replace(curvature=Curvature(dense, self.basis.T @ cross, square))
