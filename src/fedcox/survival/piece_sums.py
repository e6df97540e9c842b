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

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from threading import local
from typing import NamedTuple

import numpy as np
import scipy.sparse as sparse

from fedcox.survival.cohort import Cohort, FloatArray, IntArray
from fedcox.survival.derivatives import (
    Curvature,
    Derivatives,
    Detail,
    beyond_numbers,
    risk_of,
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

    @property
    def whole(self) -> bool:
        """Whether the curvature of α by β is asked for."""
        return self.detail in (Detail.HESSIAN, Detail.INFORMATION)


class _Sums(NamedTuple):
    """Over some patients, on the covariates as they are summed over; empty if not asked for.

    cost        () of the events
    slope       (columns,) Σ slope · x over patients
    curved      (columns,) Σ curvature · x
    square      (columns, columns) Σ curvature · x xᵀ, or its diagonal
    cross       (pieces + 1, columns) by how much Σ r x of those at risk falls from one piece
                to the next, and after the last to nothing
    by_piece    (2 or 4, pieces + 1) over those who leave in each piece: r; the part of it that
                they were there, times r; slope and curvature of the events, for grouped time
    """

    cost: FloatArray
    slope: FloatArray
    curved: FloatArray
    square: FloatArray
    cross: FloatArray
    by_piece: FloatArray

    @classmethod
    def total(cls, all_sums: Iterator[_Sums]) -> _Sums:
        """Added up in their order, in the place of the first."""
        first = next(all_sums)
        for sums in all_sums:
            for own, more in zip(first, sums, strict=True):
                own += more
        return first


@dataclass(frozen=True, eq=False)
class PieceSums:
    """One center's patients on the pieces.

    placed  where each of these leaves
    pieces  how many there are
    rows    (patients,) their rows in the cohort; None for all of them, in order
    """

    cohort: Cohort
    scaling: Scaling
    placed: TimeAtRisk
    pieces: int
    rows: IntArray | None = None

    def draw(self, numbers: IntArray) -> PieceSums:
        """The patients with these study numbers, repeated as often as they are drawn."""
        rows = np.arange(self.cohort.patients) if self.rows is None else self.rows
        by_number = np.argsort(self.cohort.number[rows])
        known = self.cohort.number[rows][by_number]
        first = np.searchsorted(known, numbers)
        inside = first < known.size
        inside[inside] = known[first[inside]] == numbers[inside]
        drawn = np.sort(by_number[first[inside]])
        placed = self.placed.rows(drawn)
        return PieceSums(self.cohort, self.scaling, placed, self.pieces, rows[drawn])

    def derivatives(
        self, link: AbstractLink, alpha: FloatArray, beta: FloatArray, detail: Detail
    ) -> Derivatives:
        """Loss and derivatives at (α, β); overflow gives an infinite loss, no exception."""
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            given = beta / self.scaling.spread
            log_rates = alpha - self._origin @ given
            rates = np.append(np.exp(log_rates), 0.0)
            rates[self._reached :] = 0.0  # nobody's, however large
            before = np.append(0.0, np.add.accumulate(rates[:-1]))
            point = _Point(link, detail, rates, before, given)
            if np.isfinite(before[-1]):
                found = self._at(point, log_rates)
                if np.isfinite(found.loss + found.alpha.sum() + found.beta.sum()):
                    return found
        return beyond_numbers(alpha.size, beta.size, detail)

    def _at(self, point: _Point, log_rates: FloatArray) -> Derivatives:
        block = min(_PATIENTS, max(256, _BLOCK // max(point.beta.size, 1)))
        if point.whole:  # sums by piece are added once a block: it has more patients than they
            block = max(block, 4 * self.pieces)
        cut = parts(self._patients, point.beta.size, least=max(block, 2 * self.pieces))
        room = local()  # for covariates, one a thread
        total = _Sums.total(in_order(lambda part: self._sums(part, block, point, room), cut))
        if not point.link.grouped:
            total.cost[...] -= self._events @ log_rates
        return self._scaled(total, point)

    # What does not depend on the question.

    @property
    def _patients(self) -> int:
        return int(self.placed.passed.size)

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
        """One for an event, as a number to compute with."""
        return self.placed.event.astype(np.float64)

    @cached_property
    def _events(self) -> FloatArray:
        """(pieces,) how many there are in each."""
        return np.bincount(self.placed.passed, self._event, self.pieces + 1)[: self.pieces]

    # Sums.

    def _sums(self, part: slice, size: int, point: _Point, room: local) -> _Sums:
        """Over neighbours, block by block."""
        vectors = np.empty((4 if point.link.grouped else 2, part.stop - part.start))

        def blocks() -> Iterator[_Sums]:
            for start in range(part.start, max(part.stop, part.start + 1), size):
                own = slice(start, min(start + size, part.stop))
                here = vectors[:, start - part.start : own.stop - part.start]
                yield self._of_block(own, self._covariates(own, size, room), here, point)

        passed = self.placed.passed[part]
        total = _Sums.total(blocks())
        by_piece = [np.bincount(passed, vector, self.pieces + 1) for vector in vectors]
        return total._replace(by_piece=np.array(by_piece))

    def _of_block(self, own: slice, x: FloatArray, vectors: FloatArray, point: _Point) -> _Sums:
        """Over one block; `vectors` get what is to be summed by piece."""
        passed = self.placed.passed[own]
        risk, share = vectors[:2]
        predictor = x @ point.beta
        risk[:] = risk_of(predictor)
        np.multiply(self.placed.part[own], risk, out=share)
        following = point.rates.take(passed)
        weight = point.before.take(passed)
        weight *= risk
        weight += share * following
        if point.link.grouped:
            slope, curvature = vectors[2:]
            v = following * risk
            cost = self._events_of(own, point.link, v, slope, curvature)
            slopes = (weight + slope) @ x
            weight += curvature
            share = share + np.divide(curvature * risk, v, out=np.zeros_like(v), where=v > 0)
        else:
            event = self._event[own]
            cost = -(event @ predictor)
            slopes = (weight - event) @ x
        curved = square = cross = np.empty(0)
        if point.detail is not Detail.GRADIENT:
            curved = weight @ x
            if point.detail is Detail.DIAGONAL:
                square = weight @ x**2
            else:
                square = weighted_square(x, np.maximum(weight, 0.0))
        if point.whole:
            cross = _leaving(passed, risk, share, self.pieces) @ x
        return _Sums(np.array(cost), slopes, curved, square, cross, np.empty(0))

    def _events_of(
        self,
        own: slice,
        link: AbstractLink,
        v: FloatArray,
        slope: FloatArray,
        curvature: FloatArray,
    ) -> float:
        """Write the slope and curvature of a block's events, and give what they cost."""
        happened = np.flatnonzero(self.placed.event[own])
        event = link.event(v[happened])
        slope[:], curvature[:] = 0.0, 0.0
        slope[happened], curvature[happened] = event.slope, event.curvature
        return float(np.add.reduce(event.cost))

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
        centered = np.subtract(block, self.scaling.mean, out=room.covariates[: len(block)])
        if not self.cohort.complete:
            np.nan_to_num(centered, copy=False, nan=0.0)
        return centered

    def _scaled(self, sums: _Sums, point: _Point) -> Derivatives:
        """The sums on the common scale, and as derivatives."""
        rates = point.rates[:-1]
        leaving, share, *event = sums.by_piece
        at_risk = rates * (_at_risk(leaving) + share[:-1])
        slope, curvature = (part[:-1] for part in event) if event else (-self._events, 0.0)
        alpha, curved = at_risk + slope, at_risk + curvature
        mean, spread = self._origin, self.scaling.spread
        loss = float(sums.cost + np.add.reduce(at_risk))
        beta = (sums.slope - np.add.reduce(alpha) * mean) / spread
        if point.detail is Detail.GRADIENT:
            return Derivatives(loss, alpha, beta, None)
        # Σ w (x − m)(x − m)ᵀ = Σ w x xᵀ − m uᵀ − u mᵀ, with u = Σ w x − ½ m Σ w.
        around = sums.curved - 0.5 * np.add.reduce(curved) * mean
        if point.detail is Detail.DIAGONAL:
            square = (sums.square - 2.0 * around * mean) / spread**2
        else:
            square = sums.square - np.outer(mean, around) - np.outer(around, mean)
            square /= np.outer(spread, spread)
        cross = None
        if point.whole:
            cross = _at_risk(sums.cross)
            for first in range(0, self.pieces, _PATIENTS):  # in the cache
                own = slice(first, first + _PATIENTS)
                cross[own] *= rates[own, None]
                cross[own] -= curved[own, None] * mean
                cross[own] /= spread
        return Derivatives(loss, alpha, beta, Curvature(curved, cross, square))


def _leaving(
    passed: IntArray, risk: FloatArray, share: FloatArray, pieces: int
) -> sparse.csc_array:
    """Sums patients by piece: r less their share of the one they leave in, r before it.

    What is left of them in a piece is the sum over all that follow.
    """
    places = np.empty((passed.size, 2), dtype=np.int32)
    places[:, 0] = passed
    np.minimum(passed + 1, pieces, out=places[:, 1], casting="same_kind")
    weights = np.empty((passed.size, 2))
    np.subtract(risk, share, out=weights[:, 0])
    weights[:, 1] = share
    pointers = np.arange(0, places.size + 1, 2, dtype=np.int32)
    return sparse.csc_array(
        (weights.ravel(), places.ravel(), pointers), shape=(pieces + 1, passed.size)
    )


def _at_risk(leaving: FloatArray) -> FloatArray:
    """Sums over those who stay longer than each piece, from sums over those who leave."""
    return np.asarray(np.add.accumulate(leaving[:0:-1], out=leaving[:0:-1])[::-1])
