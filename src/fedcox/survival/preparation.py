"""Patients made ready for a fit: scaled, placed on the grid, laid out for fast sums.

Here it is chosen what computes the loss: `piece_sums.py` in exact time, the default, and in
grouped time `cell_blocks.py` or `risk_prefixes.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from fedcox.survival.cell_blocks import CellBlocks
from fedcox.survival.cohort import BoolArray, Cohort, FloatArray, IntArray
from fedcox.survival.derivatives import Derivatives, Detail
from fedcox.survival.link import LINKS, AbstractLink
from fedcox.survival.piece_sums import PieceSums
from fedcox.survival.risk_order import order_by_risk
from fedcox.survival.risk_prefixes import RiskPrefixes
from fedcox.survival.scaling import Scaling
from fedcox.survival.time_at_risk import TimeAtRisk
from fedcox.survival.time_grid import AnyGrid, CensoredInterval

#: Up to how many intervals computing every cell is the cheaper way.
FEW_INTERVALS = {name: link.few_intervals for name, link in LINKS.items()}


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


def prepare(
    cohort: Cohort,
    grid: AnyGrid,
    reading: CensoredInterval,
    active: BoolArray,
    scaling: Scaling,
    link: AbstractLink,
) -> PreparedPatients:
    """Lay out a cohort for fitting the intervals marked in `active` on scaled covariates."""
    risk = grid.at_risk(cohort.time, cohort.event, reading).within(active)
    return prepare_placed(cohort, risk, int(np.count_nonzero(active)), scaling, link)


def prepare_placed(
    cohort: Cohort, risk: TimeAtRisk, total: int, scaling: Scaling, link: AbstractLink
) -> PreparedPatients:
    """The same for patients already placed in the `total` intervals that are fitted."""
    if not link.additive:
        return _ordered(cohort, risk, total, scaling, link)
    sums = PieceSums(cohort, scaling, risk, total)
    return sums if link.canonical else _WithInformation(sums, link)


def _ordered(
    cohort: Cohort, risk: TimeAtRisk, total: int, scaling: Scaling, link: AbstractLink
) -> PreparedPatients:
    order = order_by_risk(cohort, risk, total, scaling)
    return CellBlocks.of(order) if total <= FEW_INTERVALS[link.name] else RiskPrefixes(order)


@dataclass(frozen=True, eq=False)
class _WithInformation:
    """Costs add up over intervals; the expected information, asked for once, does not."""

    sums: PieceSums
    link: AbstractLink

    def draw(self, numbers: IntArray) -> PreparedPatients:
        return _WithInformation(self.sums.draw(numbers), self.link)

    def derivatives(
        self, link: AbstractLink, alpha: FloatArray, beta: FloatArray, detail: Detail
    ) -> Derivatives:
        expected = detail is Detail.INFORMATION and not link.canonical
        patients = self._cells if expected else self.sums
        return patients.derivatives(link, alpha, beta, detail)

    @cached_property
    def _cells(self) -> PreparedPatients:
        sums = self.sums
        cohort = sums.cohort if sums.rows is None else sums.cohort.take(sums.rows)
        return _ordered(cohort, sums.placed, sums.pieces, sums.scaling, self.link)
