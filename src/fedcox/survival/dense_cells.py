"""A center small enough to lay all its cells out at once: intervals × patients.

Hundreds of small centers are the usual case, and for them the calls cost more than the numbers:
one short dense computation beats the careful one in `derivatives.py`. Both give the same sums.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fedcox.survival.cohort import FloatArray, IntArray
from fedcox.survival.derivatives import Curvature, Derivatives, Detail
from fedcox.survival.link import AbstractLink

#: Cells up to which a center counts as small: a few arrays of that size fit the cache.
SMALL = 8192


@dataclass(frozen=True, eq=False)
class DenseCells:
    """One small center.

    covariates  (patients, kept columns), scaled
    weight      (fitted intervals, patients): 1 at risk, one half, or 0
    events      positions of the cells with an event in the flattened (intervals, patients)
    number      the patients' numbers in the study
    """

    covariates: FloatArray
    weight: FloatArray
    events: IntArray
    number: IntArray

    def draw(self, numbers: IntArray) -> DenseCells:
        """The patients with these study numbers, repeated as often as they are drawn."""
        sorted_rows = np.argsort(self.number)
        place = np.searchsorted(self.number[sorted_rows], numbers)
        place = np.minimum(place, self.number.size - 1) if self.number.size else place[:0]
        rows = sorted_rows[place]
        rows = rows[self.number[rows] == numbers] if rows.size else rows
        happened = np.zeros(self.weight.size, dtype=np.bool_)
        happened[self.events] = True
        return DenseCells(
            self.covariates[rows],
            self.weight[:, rows],
            np.flatnonzero(happened.reshape(self.weight.shape)[:, rows]),
            self.number[rows],
        )

    @cached_property
    def _columns(self) -> FloatArray:
        """The covariates column by column: their products are then one fast multiplication."""
        return np.ascontiguousarray(self.covariates.T)

    def derivatives(
        self, link: AbstractLink, alpha: FloatArray, beta: FloatArray, detail: Detail
    ) -> Derivatives:
        """Loss and derivatives at (α, β); overflow gives an infinite loss, never an exception."""
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            v = np.exp(alpha)[:, None] * np.exp(self.covariates @ beta)
            at_risk, event = link.at_risk(v), link.event(v.ravel()[self.events])
            slope = at_risk.slope * self.weight
            slope.ravel()[self.events] += event.slope
            loss = np.vdot(at_risk.cost, self.weight) + np.add.reduce(event.cost)
            gradient = np.add.reduce(slope, 0) @ self.covariates
            curvature = None
            if detail is Detail.INFORMATION and not link.canonical:
                curvature = self._curvature(link.information(v) * self.weight, detail)
            elif detail is not Detail.GRADIENT:
                cells = at_risk.curvature * self.weight
                cells.ravel()[self.events] += event.curvature
                curvature = self._curvature(cells, detail)
        return Derivatives(float(loss), np.add.reduce(slope, 1), gradient, curvature)

    def _curvature(self, cells: FloatArray, detail: Detail) -> Curvature:
        of_interval, of_patient = np.add.reduce(cells, 1), np.add.reduce(cells, 0)
        if detail is Detail.DIAGONAL:
            return Curvature(of_interval, None, of_patient @ self.covariates**2)
        beta = np.dot(self._columns * of_patient, self.covariates)
        cross = None if detail is Detail.BLOCK else np.dot(cells, self.covariates)
        return Curvature(of_interval, cross, beta)
