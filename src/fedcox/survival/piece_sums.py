"""The loss of the default fit, with its derivatives: Cox's model in exact time.

It is the likelihood of a hazard that is constant in each piece, equation (67); where each event
time is a piece, its maximum over the baseline is Cox's partial likelihood. A patient's hazard
is a sum over pieces, so no cell is ever computed.

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
from dataclasses import dataclass, field
from functools import cached_property
from threading import local

import numpy as np
import scipy.sparse as sparse

from fedcox.survival.cohort import Cohort, FloatArray, IntArray, NumberedPatients
from fedcox.survival.derivatives import (
    HIGHEST,
    Curvature,
    Derivatives,
    Detail,
    beyond_numbers,
    weighted_square,
)
from fedcox.survival.link import AbstractLink
from fedcox.survival.piece_blocks import Exits, PiecePoint, Sums, Vectors
from fedcox.survival.scaling import Scaling
from fedcox.survival.threads import in_order, parts
from fedcox.survival.time_at_risk import TimeAtRisk

#: Numbers of a block, and patients at most: its covariates and vectors stay in the cache.
_BLOCK, _PATIENTS = 2**18, 8192
_ROWS = 512
#: Sums of squares around a mean of so many spreads lose two digits, no more.
_NEAR = 8.0
#: A loss beyond this was kept finite by force, see `risk_of`.
_LARGEST = 1e270
_NOTHING = np.empty(0)


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
    _made: dict[tuple[int, int], Exits] = field(default_factory=dict, repr=False)

    def draw(self, numbers: IntArray) -> PieceSums:
        """The patients with these study numbers, repeated as often as they are drawn."""
        drawn = self._numbered.drawn(numbers)
        rows = drawn if self.rows is None else self.rows[drawn]
        return PieceSums(self.cohort, self.scaling, self.placed.rows(drawn), self.pieces, rows)

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
                point = PiecePoint(link, detail, rates, before, given)
                total = self._at(point, log_rates)
                if total.loss < _LARGEST and np.isfinite(total.beta.sum()):
                    return total
        return beyond_numbers(alpha.size, beta.size, detail)

    def _at(self, point: PiecePoint, log_rates: FloatArray) -> Derivatives:
        columns = point.beta.size
        size = min(_PATIENTS, max(256, _BLOCK // max(columns, 1)))
        # Parts have more patients than there are sums to add up after each.
        least = max(size, 4 * columns, 4 * self.pieces if point.whole else self.pieces // 2)
        cut = parts(int(self.placed.passed.size), columns, least=least)
        room = local()  # for covariates, one a thread
        total = Sums.total(in_order(lambda part: self._sums(part, size, point, room), cut))
        if point.link.log_events is not None:
            total.cost[...] -= point.link.log_events * (self._events @ log_rates)
        return self._scaled(total, point)

    # What does not depend on the question.

    @cached_property
    def _numbered(self) -> NumberedPatients:
        number = self.cohort.number
        return NumberedPatients(number if self.rows is None else number[self.rows])

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
        if self._copies is not None:
            return int((self.placed.intervals + self._copies - 1).max(initial=0))
        farthest = int(self.placed.passed.max(initial=0))
        last = np.flatnonzero(self.placed.passed == farthest)
        return farthest + bool((self.placed.event[last] | (self.placed.part[last] > 0)).any())

    @cached_property
    def _copies(self) -> IntArray | None:
        """How many of each patient, of whom some have several."""
        copies = self.placed.copies
        return None if copies is None or (copies == 1).all() else copies

    @cached_property
    def _wholly(self) -> bool:
        """Whether everybody is at risk of whole pieces alone: each is an event time."""
        part = self.placed.part
        return bool(((part == 0.0) | (part == 1.0)).all())

    @cached_property
    def _events(self) -> FloatArray:
        """(pieces,) how many there are in each."""
        piece, event = self.placed.passed, self.placed.event
        if self._copies is None:
            counts = np.bincount(piece[event], minlength=self.pieces + 1)
        else:
            share = np.repeat(event / self._copies, self._copies)
            counts = np.bincount(_following(piece, self._copies), share, self.pieces + 1)
        return counts[: self.pieces].astype(np.float64)

    def _exits(self, part: slice) -> Exits:
        """Of a part or a block; copies, of which there may be many, are kept for the next."""
        piece, lived = self.placed.passed[part], self.placed.part[part]
        if self._copies is None:
            return Exits(piece, lived)
        place, copies = (part.start, part.stop), self._copies[part]
        if place not in self._made:
            patient = np.repeat(np.arange(piece.size), copies)
            self._made[place] = Exits(
                _following(piece, copies), lived[patient], patient, 1.0 / copies[patient]
            )
        return self._made[place]

    # Sums.

    def _sums(self, part: slice, size: int, point: PiecePoint, room: local) -> Sums:
        """Over neighbours, block by block."""
        exits, patients = self._exits(part), part.stop - part.start
        even = -(-patients // max(1, -(-patients // size))) or 1  # no small block at the end
        predictor, risk = np.zeros((2, patients))
        events = np.zeros((2 if point.link.log_events is None else 0, patients))
        happened = (point.link.log_events or 0.0) * self.placed.event[part].astype(np.float64)
        hazard = exits.hazard(point, patients)
        vectors = Vectors(part, hazard, predictor, risk, events, happened)
        # Few sums by piece and column are added up once a block, many once a part.
        few = point.whole and 4 * self.pieces <= size

        def blocks() -> Iterator[Sums]:
            for start in range(0, max(patients, 1), even):
                block = vectors.block(slice(start, min(start + even, patients)))
                x = self._covariates(block.place, room)
                of_block = self._of_block(x, block, point)
                yield of_block._replace(cross=self._fall(x, block, point)) if few else of_block

        total = Sums.total(blocks())
        if point.link.log_events is not None:
            total.cost[...] -= np.dot(vectors.happened, predictor)
        of_rows = exits.risk(risk)
        by_piece = [of_rows, exits.lived * of_rows, *events]
        sums = [np.bincount(exits.piece, one, self.pieces + 1) for one in by_piece]
        total = total._replace(by_piece=np.array(sums))
        if few or not point.whole:
            return total
        return total._replace(cross=self._fall(self._covariates(part, local()), vectors, point))

    def _of_block(self, x: FloatArray, block: Vectors, point: PiecePoint) -> Sums:
        """Without those by piece."""
        if point.effects:
            np.matmul(x, point.beta, out=block.predictor)
        np.exp(np.minimum(block.predictor, HIGHEST, out=block.risk), out=block.risk)
        weight = block.hazard * block.risk
        cost = 0.0
        if point.link.log_events is None:
            cost = self._add_events(block, point)
            slope = np.dot(weight + block.events[0], x)
            weight += block.events[1]
            np.maximum(weight, 0.0, out=weight)
        else:
            slope = np.dot(weight - block.happened, x)
        curved: FloatArray = _NOTHING
        square: FloatArray = _NOTHING
        if point.detail is Detail.DIAGONAL:
            square = np.dot(weight, x**2)
        elif point.detail is not Detail.GRADIENT:
            square = weighted_square(x, weight)
        if point.detail in (Detail.DIAGONAL, Detail.BLOCK):
            curved = np.dot(weight, x)
        return Sums(np.array(cost), slope, curved, square, _NOTHING, _NOTHING)

    def _add_events(self, block: Vectors, point: PiecePoint) -> float:
        """Write the slope and curvature of a block's events, and give what they cost."""
        happened = np.flatnonzero(self.placed.event[block.place])
        rates = point.rates.take(self.placed.passed[block.place][happened])
        event = point.link.event(rates * block.risk[happened])
        block.events[0, happened], block.events[1, happened] = event.slope, event.curvature
        return float(np.add.reduce(event.cost))

    def _fall(self, x: FloatArray, block: Vectors, point: PiecePoint) -> FloatArray:
        """By how much Σ r x falls from piece to piece: (pieces + 1, columns).

        Where the piece that a patient leaves in begins, all falls away but the part of it that
        was lived through; this does where it ends.
        """
        exits = self._exits(block.place)
        risk = exits.risk(block.risk)
        share = exits.lived * risk
        if point.link.log_events is None:
            # As if events were at risk by as much as gives them their curvature.
            rates = point.rates.take(exits.piece)
            share += np.divide(
                block.events[1], rates, out=np.zeros_like(rates), where=rates > 0
            )
        first, second = exits.piece, np.minimum(exits.piece + 1, self.pieces)
        if self._wholly and point.link.log_events is not None:
            # Nobody leaves inside a piece: all falls away where it begins, or where it ends.
            weights, places = risk, np.where(exits.lived > 0, second, first).astype(np.int32)
        else:
            weights, places = np.empty((risk.size, 2)), np.empty((risk.size, 2), dtype=np.int32)
            weights[:, 0], weights[:, 1] = risk - share, share
            places[:, 0], places[:, 1] = first, second
        each = weights.ndim
        ends = np.arange(0, each * block.risk.size + 1, each, dtype=np.int32)
        if self._copies is not None:
            ends[1:] = each * np.cumsum(self._copies[block.place])
        shape = self.pieces + 1, block.risk.size
        return np.asarray(
            sparse.csc_array((weights.ravel(), places.ravel(), ends), shape=shape) @ x
        )

    def _covariates(self, place: slice, room: local) -> FloatArray:
        """Of some patients, (patients, kept columns), as they are summed over."""
        given, keep = self.cohort.covariates, self.scaling.keep
        block = given[place] if self.rows is None else given.take(self.rows[place], axis=0)
        if keep.size != given.shape[1]:
            block = block.take(keep, axis=1)
        if not self._centered:
            return block
        if not hasattr(room, "covariates") or len(room.covariates) < len(block):
            room.covariates = np.empty((len(block), keep.size))
        centered: FloatArray = room.covariates[: len(block)]
        np.subtract(block, self.scaling.mean, out=centered)
        if not self.cohort.complete:
            np.nan_to_num(centered, copy=False, nan=0.0)
        return centered

    def _scaled(self, sums: Sums, point: PiecePoint) -> Derivatives:
        """The sums on the common scale, and as derivatives."""
        rates = point.rates[:-1]
        leaving, lived, *events = sums.by_piece
        at_risk = rates * (_at_risk(leaving) + lived[:-1])
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
            by_piece, by_beta = sums.cross[1:], np.zeros_like(beta)
            _add_up(by_piece, by_beta, rates, curved, mean, spread)
        # Σ w (x − m)(x − m)ᵀ = Σ w x xᵀ − m uᵀ − u mᵀ, with u = Σ w x − ½ m Σ w.
        around = by_beta - 0.5 * np.add.reduce(curved) * mean
        if point.detail is Detail.DIAGONAL:
            square = (sums.square - 2.0 * around * mean) / spread**2
        else:
            square = sums.square - np.outer(mean, around) - np.outer(around, mean)
            square /= np.outer(spread, spread)
        return Derivatives(loss, alpha, beta, Curvature(curved, by_piece, square))


def _add_up(
    fall: FloatArray,
    total: FloatArray,
    rates: FloatArray,
    weight: FloatArray,
    mean: FloatArray,
    spread: FloatArray,
) -> None:
    """Turn falls of Σ r x, a row a piece, into curvature by piece and column, in their place.

    That is rate · Σ r (x − mean) / spread over those at risk; `weight` is rate · Σ r, and the
    rate · Σ r x of all pieces goes to `total`. A few rows at a time, which stay in the cache.
    """
    factor, later = 1.0 / spread, np.zeros_like(total)
    pairs = fall.shape[1] % 2 == 0  # of columns, added up as one number: half the additions
    for stop in range(len(fall), 0, -_ROWS):
        here = slice(max(0, stop - _ROWS), stop)
        given = fall[here].view(np.complex128) if pairs else fall[here]
        rows = np.add.accumulate(given[::-1])[::-1].view(np.float64)
        rows += later
        later = rows[0].copy()
        total += rates[here] @ rows
        rows *= np.multiply.outer(rates[here], factor)
        np.subtract(rows, np.multiply.outer(weight[here], mean * factor), out=fall[here])


def _following(first: IntArray, many: IntArray) -> IntArray:
    """So many numbers after each `first`, itself among them."""
    before = np.cumsum(many) - many
    return np.asarray(np.repeat(first - before, many) + np.arange(many.sum()))


def _at_risk(leaving: FloatArray) -> FloatArray:
    """Sums over those who stay longer than each piece, from sums over those who leave."""
    return np.asarray(np.add.accumulate(leaving[:0:-1])[::-1])
