"""Costs that add up: a patient's hazard is a sum over pieces, so no cell is ever computed.

With a_k = exp(α_k), the hazard summed over piece k at covariates zero, and r_i = exp(β·x_i), a
patient who passes p_i pieces and lives through the part f_i of the next costs

    Λ_i = r_i (a_1 + … + a_(p_i) + f_i a_(p_i + 1)),

and a piece takes a_k Σ_i r_i times what each was at risk of it: sums over those who leave in
each piece, added up from the last. The work is that of two products with the covariates,
however many pieces there are.

Patients stay in the order they came in, and covariates where they are. Columns not far from
zero are summed over as given and their sums brought to the common scale; other columns would
lose digits so, and are centered block by block.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from threading import local
from typing import NamedTuple

import numpy as np
import scipy.sparse as sparse

from fedcox.survival.cohort import Cohort, FloatArray, IntArray
from fedcox.survival.derivatives import (
    HIGHEST,
    Curvature,
    Derivatives,
    Detail,
    beyond_numbers,
)
from fedcox.survival.link import AbstractLink
from fedcox.survival.scaling import Scaling
from fedcox.survival.threads import in_order, parts
from fedcox.survival.time_grid import TimeAtRisk
from fedcox.survival.weighted_square import weighted_square

#: Numbers of a block, and patients at most: its covariates and vectors stay in the cache.
_BLOCK, _PATIENTS = 2**18, 8192
#: Sums of squares around a mean of so many spreads lose two digits, no more.
_NEAR = 8.0
#: A loss beyond this was kept finite by force, see `risk_of`.
_LARGEST = 1e270
_NOTHING = np.empty(0)


@dataclass(frozen=True, eq=False)
class _Point:
    """Where the sums are taken.

    rates       (pieces + 1,) exp(α), and zero after the last piece
    before      (pieces + 1,) the sum of the rates of those pieces that come before
    beta        (columns,) for the covariates as they are summed over
    """

    link: AbstractLink
    detail: Detail
    rates: FloatArray
    before: FloatArray
    beta: FloatArray

    @cached_property
    def effects(self) -> bool:
        """Whether there are any: every fit begins without."""
        return bool(self.beta.any())

    @property
    def whole(self) -> bool:
        """Whether the curvature of α by β is asked for."""
        return self.detail in (Detail.HESSIAN, Detail.INFORMATION)


class _Sums(NamedTuple):
    """Over some patients, on the covariates as they are summed over; empty if not asked for.

    cost        () of the events
    slope       (columns,) Σ slope · x over patients
    curved      (columns,) Σ curvature · x, if not by piece
    square      (columns, columns) Σ curvature · x xᵀ, or its diagonal
    cross       (pieces + 1, columns) by how much Σ r x of those at risk falls from one piece
                to the next, and after the last to nothing
    by_piece    (2 or 4, pieces + 1) over those who leave in each piece: r; r by their share of
                the piece; slope and curvature of its events, if they are no constants
    """

    cost: FloatArray
    slope: FloatArray
    curved: FloatArray
    square: FloatArray
    cross: FloatArray
    by_piece: FloatArray

    @classmethod
    def total(cls, all_sums: Iterable[_Sums]) -> _Sums:
        """Added up in their order, in the place of the first."""
        first, *others = all_sums
        for sums in others:
            for own, more in zip(first, sums, strict=True):
                own += more
        return first


class _Vectors(NamedTuple):
    """One number for each of some neighbours: known beforehand, or written block by block.

    own         their places among all patients
    passed      how many pieces they pass
    share       the part of the next that they live through
    hazard      at covariates zero
    predictor   β·x; `risk` is its exponential
    events      (2, patients) slope and curvature of the events, if they are no constants
    """

    own: slice
    passed: IntArray
    share: FloatArray
    hazard: FloatArray
    predictor: FloatArray
    risk: FloatArray
    events: FloatArray

    def block(self, here: slice) -> _Vectors:
        return _Vectors(
            slice(self.own.start + here.start, self.own.start + here.stop),
            self.passed[here],
            self.share[here],
            self.hazard[here],
            self.predictor[here],
            self.risk[here],
            self.events[:, here],
        )


@dataclass(frozen=True, eq=False)
class PieceSums:
    """One center's patients on the pieces.

    placed  where each of these leaves
    pieces  how many there are
    rows    (patients,) their rows in the cohort; None for all of them, in order
    weight  (patients,) how much each counts: a copy of a tied event by its share; None for one
    """

    cohort: Cohort
    scaling: Scaling
    placed: TimeAtRisk
    pieces: int
    rows: IntArray | None = None
    weight: FloatArray | None = None

    @classmethod
    def of(cls, cohort: Cohort, scaling: Scaling, placed: TimeAtRisk, pieces: int) -> PieceSums:
        """All patients; those with tied events once for each piece that they may leave in."""
        copies = placed.copies
        if copies is None or (copies == 1).all():
            return cls(cohort, scaling, placed, pieces)
        rows = np.repeat(np.arange(copies.size), copies)
        number = np.arange(rows.size) - np.repeat(np.cumsum(copies) - copies, copies)
        whole = placed.rows(rows)
        spread = TimeAtRisk(whole.passed + number, whole.event, whole.part)
        return cls(cohort, scaling, spread, pieces, rows, 1.0 / copies[rows])

    def draw(self, numbers: IntArray) -> PieceSums:
        """The patients with these study numbers, repeated as often as they are drawn."""
        rows = np.arange(self.cohort.patients) if self.rows is None else self.rows
        by_number = np.argsort(self.cohort.number[rows], kind="stable")
        known = self.cohort.number[rows][by_number]
        first, last = (np.searchsorted(known, numbers, side=side) for side in ("left", "right"))
        copies = last - first  # none of a patient of another center
        start = np.repeat(first - (np.cumsum(copies) - copies), copies)
        drawn = np.sort(by_number[start + np.arange(start.size)])
        placed = self.placed.rows(drawn)
        weight = None if self.weight is None else self.weight[drawn]
        return PieceSums(self.cohort, self.scaling, placed, self.pieces, rows[drawn], weight)

    def derivatives(
        self, link: AbstractLink, alpha: FloatArray, beta: FloatArray, detail: Detail
    ) -> Derivatives:
        """Loss and derivatives at (α, β); overflow gives an infinite loss, no exception.

        The curvature is that of the loss.
        """
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            given = beta / self.scaling.spread
            log_rates = alpha - self._origin @ given
            rates = np.append(np.exp(log_rates), 0.0)
            rates[self._reached :] = 0.0  # nobody's, however large
            before = np.append(0.0, np.add.accumulate(rates[:-1]))
            if np.isfinite(before[-1]):
                point = _Point(link, detail, rates, before, given)
                found = self._at(point, log_rates)
                if found.loss < _LARGEST and np.isfinite(found.beta.sum()):
                    return found
        return beyond_numbers(alpha.size, beta.size, detail)

    def _at(self, point: _Point, log_rates: FloatArray) -> Derivatives:
        block = min(_PATIENTS, max(256, _BLOCK // max(point.beta.size, 1)))
        # Sums by piece are added up once a block, all sums once a part: so many are no work.
        many, columns = 4 * self.pieces, point.beta.size
        least = max(block, many, 4 * columns)
        cut = parts(int(self.placed.passed.size), columns, least=least)
        size = max(block, many) if point.whole else block
        room = local()  # for covariates, one a thread
        total = _Sums.total(in_order(lambda part: self._sums(part, size, point, room), cut))
        if point.link.log_events is not None:
            total.cost[...] -= point.link.log_events * (self._events @ log_rates)
        return self._scaled(total, point)

    # What does not depend on the question.

    @cached_property
    def _centered(self) -> bool:
        """Whether covariates are centered before they are summed over."""
        near = np.abs(self.scaling.mean) <= _NEAR * self.scaling.spread
        return not (self.cohort.complete and near.all())

    @cached_property
    def _origin(self) -> FloatArray:
        """The common mean, seen from where covariates are summed over."""
        return self.scaling.mean * (not self._centered)

    @cached_property
    def _reached(self) -> int:
        """How many pieces, from the first on, somebody is at risk in."""
        return int(self.placed.intervals.max(initial=0))

    @cached_property
    def _event(self) -> FloatArray:
        """What an event counts, as a number to compute with; zero without one."""
        event = self.placed.event.astype(np.float64)
        return event if self.weight is None else event * self.weight

    @cached_property
    def _events(self) -> FloatArray:
        """(pieces,) how many there are in each."""
        events = np.bincount(self.placed.passed, self._event, self.pieces + 1)
        return np.asarray(events[:-1], dtype=np.float64)

    # Sums.

    def _sums(self, part: slice, size: int, point: _Point, room: local) -> _Sums:
        """Over neighbours, block by block."""
        vectors = self._vectors(part, point)
        patients = vectors.passed.size
        even = -(-patients // max(1, -(-patients // size))) or 1  # no small block at the end

        def blocks() -> Iterator[_Sums]:
            for start in range(0, max(patients, 1), even):
                own = vectors.block(slice(start, min(start + even, patients)))
                yield self._of_block(self._covariates(own.own, size, room), own, point)

        total = _Sums.total(blocks())
        if point.link.log_events is not None:
            total.cost[...] -= point.link.log_events * (self._event[part] @ vectors.predictor)
        by_piece = vectors.risk, vectors.share * vectors.risk, *vectors.events
        sums = [np.bincount(vectors.passed, one, self.pieces + 1) for one in by_piece]
        return total._replace(by_piece=np.array(sums))

    def _vectors(self, part: slice, point: _Point) -> _Vectors:
        passed, share = self.placed.passed[part], self.placed.part[part]
        hazard = point.rates.take(passed)
        hazard *= share
        hazard += point.before.take(passed)
        predictor, risk = np.zeros((2, passed.size))
        events = np.zeros((2 if point.link.log_events is None else 0, passed.size))
        return _Vectors(part, passed, share, hazard, predictor, risk, events)

    def _of_block(self, x: FloatArray, own: _Vectors, point: _Point) -> _Sums:
        if point.effects:
            np.matmul(x, point.beta, out=own.predictor)
        np.exp(np.minimum(own.predictor, HIGHEST), out=own.risk)
        if self.weight is not None:
            np.multiply(own.risk, self.weight[own.own], out=own.risk)
        weight = own.hazard * own.risk
        cost = 0.0
        if point.link.log_events is None:
            cost = self._add_events(own, point)
            slope = (weight + own.events[0]) @ x
            weight += own.events[1]
            np.maximum(weight, 0.0, out=weight)
        else:
            slope = (weight - point.link.log_events * self._event[own.own]) @ x
        curved: FloatArray = _NOTHING
        square: FloatArray = _NOTHING
        cross: FloatArray = _NOTHING
        if point.detail is Detail.DIAGONAL:
            curved, square = weight @ x, weight @ x**2
        elif point.detail is Detail.BLOCK:
            curved, square = weight @ x, weighted_square(x, weight)
        elif point.whole:
            cross, square = self._leaving(own, point) @ x, weighted_square(x, weight)
        return _Sums(np.array(cost), slope, curved, square, cross, _NOTHING)

    def _add_events(self, own: _Vectors, point: _Point) -> float:
        """Write the slope and curvature of a block's events, and give what they cost."""
        happened = np.flatnonzero(self.placed.event[own.own])
        rates = point.rates.take(own.passed[happened])
        event = point.link.event(rates * own.risk[happened])
        own.events[0, happened], own.events[1, happened] = event.slope, event.curvature
        return float(np.add.reduce(event.cost))

    def _leaving(self, own: _Vectors, point: _Point) -> sparse.csc_array:
        """Where r of each patient falls away from those at risk: (pieces + 1, patients).

        Where the piece that a patient leaves in begins, all falls away but its share in that
        piece, and this where it ends. The share of an event is what has its curvature.
        """
        share = own.share * own.risk
        if point.link.log_events is None:
            rates, curvature = point.rates.take(own.passed), own.events[1]
            share += np.divide(curvature, rates, out=np.zeros_like(rates), where=rates > 0)
        weights = np.stack([own.risk - share, share], axis=1)
        places = np.empty(weights.shape, dtype=np.int32)
        places[:, 0], places[:, 1] = own.passed, np.minimum(own.passed + 1, self.pieces)
        ends = np.arange(0, places.size + 1, 2, dtype=np.int32)
        return sparse.csc_array(
            (weights.ravel(), places.ravel(), ends), shape=(self.pieces + 1, own.passed.size)
        )

    def _covariates(self, own: slice, size: int, room: local) -> FloatArray:
        """Of some patients, (patients, kept columns), as they are summed over."""
        given, keep = self.cohort.covariates, self.scaling.keep
        block = given[own] if self.rows is None else given.take(self.rows[own], axis=0)
        if keep.size != given.shape[1]:
            block = block.take(keep, axis=1)
        if not self._centered:
            return block
        if not hasattr(room, "covariates"):
            room.covariates = np.empty((size, keep.size))
        centered: FloatArray = room.covariates[: len(block)]
        np.subtract(block, self.scaling.mean, out=centered)
        if not self.cohort.complete:
            np.nan_to_num(centered, copy=False, nan=0.0)
        return centered

    def _scaled(self, sums: _Sums, point: _Point) -> Derivatives:
        """The sums on the common scale, and as derivatives."""
        rates = point.rates[:-1]
        leaving, share, *events = sums.by_piece
        at_risk = rates * (_at_risk(leaving) + share[:-1])
        slope, curvature = -(point.link.log_events or 0.0) * self._events, 0.0
        if events:
            slope, curvature = (part[:-1] for part in events)
        alpha, curved = at_risk + slope, at_risk + curvature
        mean, spread = self._origin, self.scaling.spread
        loss = float(sums.cost + np.add.reduce(at_risk))
        beta = (sums.slope - np.add.reduce(alpha) * mean) / spread
        if point.detail is Detail.GRADIENT:
            return Derivatives(loss, alpha, beta, None)
        by_beta, by_piece = sums.curved, None
        if point.whole:
            by_piece = _at_risk(sums.cross)
            by_piece *= rates[:, None]
            by_beta = np.add.reduce(by_piece, 0)
            _center(by_piece, curved, mean, spread)
        # Σ w (x − m)(x − m)ᵀ = Σ w x xᵀ − m uᵀ − u mᵀ, with u = Σ w x − ½ m Σ w.
        around = by_beta - 0.5 * np.add.reduce(curved) * mean
        if point.detail is Detail.DIAGONAL:
            square = (sums.square - 2.0 * around * mean) / spread**2
        else:
            square = sums.square - np.outer(mean, around) - np.outer(around, mean)
            square /= np.outer(spread, spread)
        return Derivatives(loss, alpha, beta, Curvature(curved, by_piece, square))


def _center(sums: FloatArray, weight: FloatArray, mean: FloatArray, spread: FloatArray) -> None:
    """Bring sums of weight · x, a row each, to (x − mean) / spread; a few rows at a time."""
    for first in range(0, len(sums), _PATIENTS):
        own = slice(first, first + _PATIENTS)
        sums[own] -= weight[own, None] * mean
        sums[own] /= spread


def _at_risk(leaving: FloatArray) -> FloatArray:
    """Sums over those who stay longer than each piece, from sums over those who leave."""
    return np.asarray(np.add.accumulate(leaving[:0:-1], out=leaving[:0:-1])[::-1])
