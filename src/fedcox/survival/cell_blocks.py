"""Few intervals: cells are computed, in blocks of patients small enough for the cache.

A block is laid out as intervals × patients. In it everything happens at once – predictor,
cells, gradient, curvature – so the covariates are read from memory once per question.
Where costs add up over intervals, `piece_sums.py` needs no cells.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, reduce
from threading import local

import numpy as np

from fedcox.survival.cohort import FloatArray, IntArray
from fedcox.survival.derivatives import (
    Curvature,
    Derivatives,
    Detail,
    beyond_numbers,
    risk_of,
    square_of_columns,
    zero_derivatives,
)
from fedcox.survival.link import AbstractLink
from fedcox.survival.risk_order import AlikePatients, Cells, RiskOrder
from fedcox.survival.threads import in_order, parts

#: Limits, measured: larger ones leave the cache, smaller ones cost more calls.
_CELLS = 65_536  # of a block
_PATIENTS = 4096
_COVARIATES = 76_800  # of a slab
_TILE = 512  # patients scaled and turned at a time
_COSTS = 2**18  # numbers that a block is worth, to share blocks out
#: Half the range of α that 1, 2, 3, … points speak for: measured where the hazard bends most,
#: for f'' of the logit link. Others are compared with it by their `smoothness`.
_REACH = np.array(
    (
        *(0.0, 0.0, 0.0, 0.002, 0.010, 0.028, 0.060, 0.106, 0.165, 0.237, 0.317, 0.405),
        *(0.50, 0.60, 0.70, 0.81, 0.92, 1.03, 1.15, 1.26, 1.38, 1.50, 1.61, 1.74),
    )
)
#: Points need a weight a row, so they pay only where they are clearly fewer than intervals.
_WORTHWHILE = 0.8
_FEWEST = 5  # intervals
_TINY = 1e-300  # stands for zero in a denominator


@dataclass(frozen=True, eq=False)
class WorkingRoom:
    """Memory that every block of a center computes in; fresh memory costs more than sums do.

    cells   (3, most cells of a block)
    columns (columns, most patients of a slab)
    """

    cells: FloatArray
    columns: FloatArray


@dataclass(frozen=True, eq=False)
class BlockCells:
    """Which cells of a block count, laid out as intervals × patients.

    partial     (interval, how many of the patients pass it), where not all do
    events      the cells with an event; `halves` those that count one half, or None
    """

    partial: tuple[tuple[int, int], ...]
    events: Cells
    halves: Cells | None

    def from_interval(self, first: int) -> BlockCells:
        """The same without the intervals before `first`, which all of the patients pass."""
        return BlockCells(
            tuple((interval - first, passing) for interval, passing in self.partial),
            self.events.from_interval(first),
            None if self.halves is None else self.halves.from_interval(first),
        )


@dataclass(frozen=True, eq=False)
class CellBlock:
    """Neighbours in risk order, and the intervals that any of them is at risk in.

    columns     (columns, patients), a part of a slab
    cells       of all these intervals
    passed      how many intervals, from the first on, all of the patients pass
    """

    columns: FloatArray
    cells: BlockCells
    passed: int
    _fewer: dict[int, BlockCells] = field(default_factory=dict)  # without the first so many

    @property
    def depth(self) -> int:
        """How many intervals, from the first on."""
        return self.cells.events.shape[0]

    def derivatives(
        self,
        link: AbstractLink,
        rates: FloatArray,
        beta: FloatArray,
        detail: Detail,
        room: WorkingRoom,
        points: IntervalPoints | None,
    ) -> Derivatives:
        """Sums over the block; `rates` are exp(α) of its own intervals.

        `points` stand for the intervals that all of the patients pass, if they are fewer.
        """
        if points is None:
            return self._sums(self.cells, link, rates, None, beta, detail, room)
        fewer = self.passed - points.rates.size
        if fewer not in self._fewer:
            self._fewer[fewer] = self.cells.from_interval(fewer)
        rows = np.concatenate((points.rates, rates[self.passed :]))
        weight = np.concatenate((points.weight, np.ones(rows.size - points.weight.size)))
        sums = self._sums(self._fewer[fewer], link, rows, weight, beta, detail, room)
        return _spread(sums, points)

    def _sums(
        self,
        cells: BlockCells,
        link: AbstractLink,
        rates: FloatArray,
        weight: FloatArray | None,
        beta: FloatArray,
        detail: Detail,
        room: WorkingRoom,
    ) -> Derivatives:
        events, halves = cells.events, cells.halves
        shape = intervals, patients = events.shape
        expected = _expected(link, detail)
        v, curvature, information = (
            part.reshape(shape) for part in room.cells[:, : intervals * patients]
        )
        # An outer product; a ufunc is slower at rows as short as these.
        np.dot(rates[:, None], risk_of(beta @ self.columns)[None], out=v)
        at_event = v.ravel().take(events.flat)
        at_half = None if halves is None else v.ravel().take(halves.flat)
        for interval, passing in cells.partial:
            v[interval, passing:] = 0.0  # costs nothing, adds nothing
        event = link.event(at_event)
        if expected:
            information = link.information(v, out=information)
        # Slopes take the place of v: the less memory, the more of it stays in the cache.
        cost, slope, curvature = link.at_risk_sum(v, (v, curvature), weight)
        of_patient, of_interval = _over_intervals(slope, weight), np.add.reduce(slope, 1)
        of_patient[events.patient] += event.slope
        of_interval += np.bincount(events.interval, event.slope, intervals)
        cost += float(np.add.reduce(event.cost))
        if expected:
            curvature = information
            event = event._replace(curvature=link.information(at_event))
        if halves is not None and at_half is not None:
            half = link.at_risk(at_half)
            cost += 0.5 * float(np.add.reduce(half.cost))
            of_patient[halves.patient] += 0.5 * half.slope
            of_interval += 0.5 * np.bincount(halves.interval, half.slope, intervals)
            of_half = link.information(at_half) if expected else half.curvature
            curvature.ravel()[halves.flat] = 0.5 * of_half
        curvature.ravel()[events.flat] = event.curvature
        return Derivatives(
            cost,
            of_interval,
            self.columns @ of_patient,
            self._curvature(curvature, weight, detail, room.columns),
        )

    def _curvature(
        self,
        cells: FloatArray,
        weight: FloatArray | None,
        detail: Detail,
        scratch: FloatArray,
    ) -> Curvature | None:
        if detail is Detail.GRADIENT:
            return None
        x = self.columns
        of_patient, of_interval = _over_intervals(cells, weight), np.add.reduce(cells, 1)
        if detail is Detail.DIAGONAL:
            return Curvature(of_interval, None, x**2 @ of_patient)
        # Before the square, whose memory drives the cells out of the cache.
        cross = None if detail is Detail.BLOCK else cells @ x.T
        return Curvature(of_interval, cross, square_of_columns(x, of_patient, scratch))


def _expected(link: AbstractLink, detail: Detail) -> bool:
    """Whether the curvature asked for is another than that of the loss."""
    return detail is Detail.INFORMATION and not link.canonical


def _over_intervals(cells: FloatArray, weight: FloatArray | None) -> FloatArray:
    return np.asarray(np.add.reduce(cells, 0) if weight is None else weight @ cells)


def _spread(sums: Derivatives, points: IntervalPoints) -> Derivatives:
    """The sums at the points handed out to the intervals they stand for."""
    curvature = sums.curvature
    if curvature is not None:
        cross = None if curvature.cross is None else points.spread(curvature.cross)
        curvature = Curvature(points.spread(curvature.alpha), cross, curvature.beta)
    return Derivatives(sums.loss, points.spread(sums.alpha), sums.beta, curvature)


@dataclass(frozen=True, eq=False)
class CellBlocks:
    """One center as a row of blocks.

    slabs   (columns, patients) of neighbours, scaled, as many as the cache holds; blocks are
            cut from these
    """

    order: RiskOrder
    slabs: tuple[FloatArray, ...]
    blocks: tuple[CellBlock, ...]

    @classmethod
    def of(cls, order: RiskOrder) -> CellBlocks:
        slabs = tuple(_slabs(order))
        ends = np.cumsum([0, *(slab.shape[1] for slab in slabs)]).tolist()
        cuts = zip(slabs, ends[:-1], strict=True)
        return cls(order, slabs, tuple(block for cut in cuts for block in _cut(order, *cut)))

    @cached_property
    def _alike(self) -> AlikePatients:
        return AlikePatients.of(self.order, self.slabs)

    def draw(self, numbers: IntArray) -> CellBlocks:
        """The patients with these study numbers, repeated as often as they are drawn."""
        return CellBlocks.of(self.order.draw(numbers))

    def derivatives(
        self, link: AbstractLink, alpha: FloatArray, beta: FloatArray, detail: Detail
    ) -> Derivatives:
        """Loss and derivatives at (α, β); overflow gives an infinite loss, no exception."""
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            rates = self.order.rates(alpha)
            if rates is None:
                return beyond_numbers(alpha.size, beta.size, detail)
            if detail is Detail.HESSIAN and not beta.any() and self._alike.worthwhile:
                return self._alike.hessian(link, rates, beta.size)
            passed, rooms = PassedIntervals(link, alpha), local()

            def sums(part: slice) -> Derivatives:
                if not hasattr(rooms, "own"):
                    rooms.own = self._room()
                total, loss = zero_derivatives(alpha.size, beta.size, detail), 0.0
                for block in self.blocks[part]:
                    points = passed.first(block.passed)
                    block_rates = rates[: block.depth]
                    at_block = block.derivatives(
                        link, block_rates, beta, detail, rooms.own, points
                    )
                    loss += at_block.loss
                    _add(total, at_block, block.depth)
                return total._replace(loss=loss)

            return reduce(Derivatives.__add__, in_order(sums, parts(len(self.blocks), _COSTS)))

    def _room(self) -> WorkingRoom:
        cells = max((block.depth * block.columns.shape[1] for block in self.blocks), default=0)
        patients = max((block.columns.shape[1] for block in self.blocks), default=0)
        return WorkingRoom(np.empty((3, cells)), np.empty((self.order.columns, patients)))


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


def _slabs(order: RiskOrder) -> list[FloatArray]:
    """From those who pass most intervals to those who pass none."""
    columns, patients = order.columns, order.patients if order.surviving.size else 0
    size = max(64, _COVARIATES // max(columns, 1))
    store = np.empty(patients * columns)

    def slab(start: int, tile: FloatArray) -> FloatArray:
        stop = min(patients, start + size)
        scaled = store[start * columns : stop * columns].reshape(columns, stop - start)
        for first in range(start, stop, _TILE):
            last = min(first + _TILE, stop)
            order.scaled(first, last, out=tile[: last - first])
            scaled[:, first - start : last - start] = tile[: last - first].T
        return scaled

    def slabs(part: slice) -> list[FloatArray]:
        tile = np.empty((_TILE, columns))
        return [slab(number * size, tile) for number in range(part.start, part.stop)]

    cut = parts(-(-patients // size), size * columns)
    return [scaled for some in in_order(slabs, cut) for scaled in some]


def _cut(order: RiskOrder, slab: FloatArray, first: int) -> Iterator[CellBlock]:
    """The blocks of a slab, whose patients stand from `first` on."""
    start, end = first, first + slab.shape[1]
    while start < end:
        depth = order.depth(start)
        stop = min(end, start + min(_PATIENTS, max(64, _CELLS // depth)))
        passing = np.clip(order.surviving[:depth] - start, 0, stop - start)
        partial = np.flatnonzero(passing < stop - start)
        cells = BlockCells(
            tuple(zip(partial.tolist(), passing[partial].tolist(), strict=True)),
            *order.cells(start, stop),
        )
        columns = slab[:, start - first : stop - first]
        yield CellBlock(columns, cells, passed=depth - partial.size)
        start = stop


@dataclass(frozen=True, eq=False)
class IntervalPoints:
    """Points that stand for the first intervals, which everyone passes.

    What a patient costs in an interval is a smooth function of its α. Where the α of many
    intervals lie close together, values at a few Chebyshev points between them give those at
    every one of them, to thirteen digits, and sums over cells need no more cells than points.

    rates       (points,) exp(α) there
    shares      (intervals, points): values at the intervals are `shares @ values at points`
    weight      (points,) how often each counts in a sum over the intervals
    """

    rates: FloatArray
    shares: FloatArray
    weight: FloatArray

    def spread(self, values: FloatArray) -> FloatArray:
        """Hand out the sums at the points, which come first in `values`, to the intervals."""
        points = self.rates.size
        return np.concatenate((self.shares @ values[:points], values[points:]))


@dataclass(frozen=True, eq=False)
class PassedIntervals:
    """The points for the first so many intervals, at one α; found when first needed."""

    link: AbstractLink
    alpha: FloatArray
    _known: dict[int, IntervalPoints | None] = field(default_factory=dict)

    def first(self, intervals: int) -> IntervalPoints | None:
        """Points for the first `intervals` intervals, None where they would not be fewer."""
        if intervals not in self._known:
            self._known[intervals] = self._points(self.alpha[:intervals])
        return self._known[intervals]

    def _points(self, alpha: FloatArray) -> IntervalPoints | None:
        if alpha.size < _FEWEST or not self.link.smoothness:
            return None
        low, high = alpha.min(), alpha.max()
        half = 0.5 * (high - low)
        if not half <= self.link.smoothness * _REACH[-1]:
            return None
        points = 1 + int(np.searchsorted(_REACH, half / self.link.smoothness))
        if points > _WORTHWHILE * alpha.size:
            return None
        return _chebyshev(alpha, 0.5 * (low + high), half, points)


def _chebyshev(alpha: FloatArray, middle: float, half: float, points: int) -> IntervalPoints:
    """Chebyshev's points between middle ± half, and the polynomial through them at `alpha`."""
    place, table = _between(points)
    inside = np.clip((alpha - middle) / max(half, _TINY), -1.0, 1.0)
    shares = np.cos(np.outer(np.arccos(inside), np.arange(points))) @ table
    return IntervalPoints(np.exp(middle + half * place), shares, np.add.reduce(shares, 0))


@lru_cache(maxsize=_REACH.size)
def _between(points: int) -> tuple[FloatArray, FloatArray]:
    """Chebyshev's points in ±1, and how values there become coefficients of T_0, T_1, …."""
    angle = (np.arange(points) + 0.5) * (np.pi / points)
    factor = np.where(np.arange(points) == 0, 1.0, 2.0) / points
    return np.cos(angle), factor[:, None] * np.cos(np.outer(np.arange(points), angle))
