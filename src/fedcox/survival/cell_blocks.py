"""Few intervals: every cell is computed, in blocks of patients small enough for the cache.

A block is laid out as intervals × patients. In it everything happens at once – predictor,
cells, gradient, curvature – so the covariates are read from memory once per question.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fedcox.survival.cohort import FloatArray, IntArray
from fedcox.survival.derivatives import Curvature, Derivatives, Detail, zero_derivatives
from fedcox.survival.link import AbstractLink, Terms
from fedcox.survival.risk_order import Cells, RiskOrder

#: A block's limits: its cells and its covariates both stay in the second-level cache.
_CELLS = 24_576
_PATIENTS = 1024


@dataclass(frozen=True, eq=False)
class CellBlock:
    """Neighbours in risk order, and the intervals that any of them is at risk in.

    covariates  (patients, columns), scaled
    inside      (intervals, patients): 1 at risk or 0; None where everyone is at risk throughout
    events      the cells with an event
    halves      the cells that count one half, or None
    """

    covariates: FloatArray
    inside: FloatArray | None
    events: Cells
    halves: Cells | None

    @property
    def depth(self) -> int:
        """How many intervals, from the first on."""
        return self.events.shape[0]

    def derivatives(
        self,
        link: AbstractLink,
        alpha: FloatArray,
        beta: FloatArray,
        detail: Detail,
        scratch: FloatArray,
    ) -> Derivatives:
        """Sums over the block; `alpha` of its intervals, `scratch` for a copy of covariates."""
        events = self.events
        v = np.exp(alpha)[:, None] * np.exp(self.covariates @ beta)
        if self.inside is not None:
            v *= self.inside  # where v = 0 nothing is added anywhere
        event = link.event(v.ravel().take(events.flat))
        cost, slope, curvature = link.at_risk_sum(v)
        if detail is Detail.INFORMATION and not link.canonical:
            curvature = link.information(v)
        if self.halves is not None:
            cost -= 0.5 * float(link.cost(v.ravel().take(self.halves.flat)).sum())
            slope, curvature = _halved(slope, self.halves), _halved(curvature, self.halves)
        of_patient, of_interval = np.add.reduce(slope, 0), np.add.reduce(slope, 1)
        of_patient[events.patient] += event.slope
        of_interval += np.bincount(events.interval, event.slope, self.depth)
        return Derivatives(
            cost + float(np.add.reduce(event.cost)),
            of_interval,
            of_patient @ self.covariates,
            self._curvature(link, curvature, event, detail, scratch),
        )

    def _curvature(
        self,
        link: AbstractLink,
        cells: FloatArray,
        event: Terms,
        detail: Detail,
        scratch: FloatArray,
    ) -> Curvature | None:
        if detail is Detail.GRADIENT:
            return None
        if detail is not Detail.INFORMATION and not link.canonical:
            cells = cells.copy()  # it may be v itself
            cells.ravel()[self.events.flat] += event.curvature
        x = self.covariates
        of_patient, of_interval = np.add.reduce(cells, 0), np.add.reduce(cells, 1)
        if detail is Detail.DIAGONAL:
            return Curvature(of_interval, None, of_patient @ x**2)
        rows = np.multiply(
            x, np.sqrt(np.maximum(of_patient, 0.0))[:, None], out=scratch[: len(x)]
        )
        cross = None if detail is Detail.BLOCK else cells @ x
        return Curvature(of_interval, cross, rows.T @ rows)


def _halved(cells: FloatArray, halves: Cells) -> FloatArray:
    halved = cells.copy()
    halved.ravel()[halves.flat] *= 0.5
    return halved


@dataclass(frozen=True, eq=False)
class CellBlocks:
    """One center as a row of blocks."""

    order: RiskOrder
    blocks: tuple[CellBlock, ...]

    @classmethod
    def of(cls, order: RiskOrder) -> CellBlocks:
        return cls(order, tuple(_cut(order)))

    def draw(self, numbers: IntArray) -> CellBlocks:
        """The patients with these study numbers, repeated as often as they are drawn."""
        return CellBlocks.of(self.order.draw(numbers))

    def derivatives(
        self, link: AbstractLink, alpha: FloatArray, beta: FloatArray, detail: Detail
    ) -> Derivatives:
        """Loss and derivatives at (α, β); overflow gives an infinite loss, no exception."""
        total = zero_derivatives(alpha.size, beta.size, detail)
        scratch = np.empty((min(_PATIENTS, self.order.patients), beta.size))
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            loss = 0.0
            for block in self.blocks:
                part = block.derivatives(link, alpha[: block.depth], beta, detail, scratch)
                loss += part.loss
                _add(total, part, block.depth)
        return total._replace(loss=loss)


def _add(total: Derivatives, part: Derivatives, depth: int) -> None:
    """Add a block's sums into the first `depth` intervals of the center's, in place."""
    total.alpha[:depth] += part.alpha
    np.add(total.beta, part.beta, out=total.beta)
    if total.curvature is None or part.curvature is None:
        return
    total.curvature.alpha[:depth] += part.curvature.alpha
    np.add(total.curvature.beta, part.curvature.beta, out=total.curvature.beta)
    if total.curvature.cross is not None and part.curvature.cross is not None:
        total.curvature.cross[:depth] += part.curvature.cross


def _cut(order: RiskOrder) -> Iterator[CellBlock]:
    """Blocks from the longest at risk to the last patient at risk at all."""
    last = int(order.at_risk[0]) if order.at_risk.size else 0
    if order.halves is not None:
        last = order.patients  # some are at risk in half of the first interval only
    start = 0
    while start < last:
        depth = int(order.intervals[start])
        if order.halves is not None:
            depth = min(depth + 1, order.at_risk.size)
        stop = min(last, start + min(_PATIENTS, max(64, _CELLS // depth)))
        yield _block(order, start, stop, depth)
        start = stop


def _block(order: RiskOrder, start: int, stop: int, depth: int) -> CellBlock:
    halves = None if order.halves is None else _within(order.halves, start, stop, depth)
    intervals = order.intervals[start:stop]
    inside = None
    if int(intervals[-1]) < depth:
        at_risk = np.arange(depth)[:, None] < intervals
        if halves is not None:
            at_risk[halves.interval, halves.patient] = True
        inside = at_risk.astype(np.float64)
    return CellBlock(
        order.covariates[start:stop], inside, _within(order.events, start, stop, depth), halves
    )


def _within(cells: Cells, start: int, stop: int, depth: int) -> Cells:
    first, last = np.searchsorted(cells.patient, (start, stop))
    return Cells(
        cells.patient[first:last] - start, cells.interval[first:last], (depth, stop - start)
    )
