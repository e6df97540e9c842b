"""Patients made ready for a fit: scaled, placed on the grid, laid out for fast sums."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from fedcox.survival.cohort import BoolArray, Cohort, FloatArray, IntArray
from fedcox.survival.dense_cells import SMALL, DenseCells
from fedcox.survival.derivatives import Derivatives, Detail, derivatives
from fedcox.survival.link import AbstractLink
from fedcox.survival.risk_order import RiskOrder, order_by_risk
from fedcox.survival.scaling import Scaling
from fedcox.survival.time_grid import CensoredInterval, TimeAtRisk, TimeGrid


class PreparedPatients(Protocol):
    """What a fit asks of one center's patients."""

    def draw(self, numbers: IntArray) -> PreparedPatients:
        """The patients with these study numbers, repeated as often as they are drawn."""
        ...

    def derivatives(
        self, link: AbstractLink, alpha: FloatArray, beta: FloatArray, detail: Detail
    ) -> Derivatives:
        """Loss and derivatives at (α, β), summed over the patients."""
        ...


@dataclass(frozen=True, eq=False)
class OrderedPatients:
    """A center of any size, through its risk order."""

    order: RiskOrder

    def draw(self, numbers: IntArray) -> OrderedPatients:
        return OrderedPatients(self.order.draw(numbers))

    def derivatives(
        self, link: AbstractLink, alpha: FloatArray, beta: FloatArray, detail: Detail
    ) -> Derivatives:
        return derivatives(self.order, link, alpha, beta, detail)


def prepare(
    cohort: Cohort,
    grid: TimeGrid,
    reading: CensoredInterval,
    active: BoolArray,
    scaling: Scaling,
) -> PreparedPatients:
    """Lay out a cohort for fitting the intervals marked in `active` on scaled covariates."""
    risk = grid.at_risk(cohort.time, cohort.event, reading).within(active)
    total = int(np.count_nonzero(active))
    if cohort.patients * total <= SMALL:
        return _dense(cohort, risk, total, scaling)
    return OrderedPatients(order_by_risk(cohort.covariates, risk, total, cohort.number, scaling))


def _dense(cohort: Cohort, risk: TimeAtRisk, total: int, scaling: Scaling) -> DenseCells:
    scaled = np.empty((cohort.patients, scaling.keep.size))
    scaling.apply(cohort.covariates, out=scaled)
    interval = np.arange(total)[:, None]
    weight = (interval < risk.intervals).astype(np.float64)
    if risk.half.any():
        weight += 0.5 * (interval == np.where(risk.half, risk.intervals, -1))
    patient = np.flatnonzero(risk.event)
    events = (risk.intervals[patient] - 1) * cohort.patients + patient
    return DenseCells(scaled, weight, events, cohort.number)
