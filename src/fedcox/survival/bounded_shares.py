"""What one patient adds to a noised sum: rows of numbers, none longer than a bound.

Cutting a finished row would bias what is estimated. Here a patient weighs less, or is watched
for less time, by rules that look at its covariates and at time alone and never at what happens
to it afterwards. So every sum is right on average (docs/mathematics.md). Rows of a fit stay
below their bound by these rules; that every caller cuts them there is for the proof.

What becomes of a row does not depend, to the last bit, on the other rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fedcox.survival.bounded_rows import triangle_places, turn
from fedcox.survival.bounds import shaped
from fedcox.survival.cohort import BoolArray, FloatArray, IntArray
from fedcox.survival.scaling import linear_predictor
from fedcox.survival.time_at_risk import TimeAtRisk

#: What the rules leave out is counted in this part of the reach, up to so many expected events.
LEFT_OUT, MOST_LEFT_OUT = 0.15, 4.0
#: How much what is across pieces and columns counts beside the rest of the information, and of
#: how many expected events of one patient there is information at most.
ACROSS, MOST_EXPECTED = 0.13, 6.0
#: Beyond this no exponential is taken; a hazard so large ends the watch at once.
_HIGHEST = 100.0
#: Who is nearer to the end of the watch than this is looked at piece by piece.
_NEAR_END = 1e-9


@dataclass(frozen=True, eq=False)
class ScoreMetric:
    """In which units the score is measured: standard deviations, in every direction.

    With d_k events in piece k and z̄_k the mean covariates of those who have the event in it,
    the part of one event at covariates z is

        e_k / √d_k    and    whitening · (z − z̄_k).

    events      (pieces,) d_k
    means       (pieces, columns) z̄_k
    whitening   (columns, columns)
    """

    events: FloatArray
    means: FloatArray
    whitening: FloatArray

    @property
    def size(self) -> int:
        return int(self.events.size + self.whitening.shape[0])

    @property
    def numbers(self) -> int:
        """How many numbers describe it to a center."""
        return int(self.events.size + self.means.size + self.whitening.size)

    def faults(self, columns: int | None) -> Iterator[str]:
        """Events and means of each piece, and a square of the columns kept."""
        pieces, kept = self.events.shape, self.whitening.shape[:1]
        if not (len(pieces) == len(kept) == 1 and pieces[0]):
            yield "events must be a list of numbers, and whitening a square"
            return
        yield from shaped("means", self.means, pieces + kept, "one row for each piece")
        yield from shaped("whitening", self.whitening, 2 * kept, "a square of columns kept")
        if not (self.events > 0).all():
            yield "events must be above zero"

    @property
    def whitened_means(self) -> FloatArray:
        return np.asarray(self.means @ self.whitening.T)

    def step(self, score: FloatArray) -> FloatArray:
        """The Newton step in (α, β) that a score in this metric asks for."""
        of_alpha, of_beta = np.split(score, [self.events.size])
        beta = self.whitening.T @ of_beta
        return np.append(of_alpha / np.sqrt(self.events) - self.means @ beta, beta)

    def score_of(self, step: FloatArray) -> FloatArray:
        """The score whose step in (α, β) this is."""
        alpha, beta = np.split(step, [self.events.size])
        of_beta = np.linalg.solve(self.whitening.T, beta)
        return np.append(np.sqrt(self.events) * (alpha + self.means @ beta), of_beta)


def score_rows(
    covariates: FloatArray,
    placed: TimeAtRisk,
    point: tuple[FloatArray, FloatArray],
    metric: ScoreMetric,
    reach: float,
) -> FloatArray:
    """Each patient's part of the score at (α, β), in the metric.

    (patients, pieces + columns + 2). With b_k(z) the part of one event at covariates z in piece
    k, weights are w_k = min(1, reach / |b_k|). A patient is watched until the compensator, the
    sum of w_k b_k a_k r · (part of the piece lived through), is as long as `reach`; an event
    after that does not count.

    The last two numbers are about what weights and watch leave out, in units of `LEFT_OUT`
    times the reach: the event, less its weight, and the events that the model expects there,
    `MOST_LEFT_OUT` at most.
    """
    alpha, beta = point
    rules = _Rules(alpha, np.exp(np.minimum(alpha, _HIGHEST)), metric, reach)
    y = turn(covariates, metric.whitening)
    predictor = linear_predictor(covariates, beta)
    rows = np.empty((len(y), alpha.size + beta.size + 2))
    with np.errstate(over="ignore", invalid="ignore"):
        part, left_out = rules.in_full(np.exp(predictor), placed), np.zeros((len(y), 2))
        some = np.flatnonzero(~rules.certainly_free(y, predictor, placed))
        if some.size:
            of_some = rules.applied(y[some], predictor[some], placed.rows(some))
            part[some], left_out[some] = of_some
        np.multiply(part, 1.0 / np.sqrt(metric.events), out=rows[:, : alpha.size])
        of_beta = rows[:, alpha.size : -2]
        np.multiply(y, part.sum(axis=1, keepdims=True), out=of_beta)
        of_beta -= turn(part, metric.whitened_means.T)
        np.multiply(left_out, LEFT_OUT * reach, out=rows[:, -2:])
    return rows


def information_rows(
    covariates: FloatArray,
    placed: TimeAtRisk,
    point: tuple[FloatArray, FloatArray],
    metric: ScoreMetric,
    reach: float,
    cap: float,
) -> FloatArray:
    """Each patient's part of the information at (α, β), in the metric.

    (patients, products + pieces · columns). With y_k the part of the metric that belongs to β
    and g_k the weighted compensator of piece k, as far as it is watched in `score_rows`: the
    triangle of Σ g_k y_k y_kᵀ, then `ACROSS` · cap · g_k y_k of every piece. Who has a trace of
    cap² or `MOST_EXPECTED` events is looked at no more: no row is longer than
    `information_bound`.
    """
    alpha, beta = point
    rules = _Rules(alpha, np.exp(np.minimum(alpha, _HIGHEST)), metric, reach)
    y, means = turn(covariates, metric.whitening), metric.whitened_means
    with np.errstate(over="ignore", invalid="ignore"):
        gone, squares = rules.compensator(y, linear_predictor(covariates, beta), placed)
        spent = np.maximum(squares / cap**2, 1.0 / MOST_EXPECTED) * gone
        kept = (1.0 - _before(spent)) / np.where(spent > 0, spent, 1.0)
        gone *= np.clip(kept, 0.0, 1.0)
        mean = turn(gone, means.T)
        row, column, factor = triangle_places(y.shape[1])
        rows = gone.sum(axis=1, keepdims=True) * y[:, row] * y[:, column]
        rows -= y[:, row] * mean[:, column] + mean[:, row] * y[:, column]
        rows += turn(gone, (means[:, row] * means[:, column]).T)
        across = (gone * (ACROSS * cap))[:, :, None] * (y[:, None, :] - means)
    return np.hstack([rows * factor, across.reshape(len(y), -1)])


def information_bound(cap: float) -> float:
    """The longest row of `information_rows`."""
    return cap**2 * math.hypot(1.0, ACROSS * math.sqrt(MOST_EXPECTED))


@dataclass(frozen=True, eq=False)
class _Rules:
    """Weight and watch, of patients with whitened covariates y: event less compensator.

    `hazard` is exp(α): in each piece, of a patient at covariates of zero.
    """

    alpha: FloatArray
    hazard: FloatArray
    metric: ScoreMetric
    reach: float

    def certainly_free(
        self, y: FloatArray, predictor: FloatArray, placed: TimeAtRisk
    ) -> BoolArray:
        """Who has no weight below one and is watched to the end, by bounds quickly found.

        They are nearly all; for the others `applied` looks at every piece.
        """
        means = self.metric.whitened_means
        center = (means.min(axis=0) + means.max(axis=0)) / 2.0
        apart = np.sqrt(((means - center) ** 2).sum(axis=1).max(initial=0.0))
        square = (np.sqrt(((y - center) ** 2).sum(axis=1)) + apart) ** 2
        hazard = np.append(self.hazard, 0.0)
        alone = hazard**2 / np.append(self.metric.events, 1.0)
        before, alone_before = (
            np.append(0.0, np.cumsum(hazard)),
            np.append(0.0, np.cumsum(alone)),
        )
        passed, part = np.minimum(placed.passed, self.alpha.size), placed.part
        risk = np.exp(predictor)
        spent = square * (risk * (before[passed] + hazard[passed] * part)) ** 2
        spent += risk**2 * (alone_before[passed] + alone[passed] * part**2)
        light = square + 1.0 / self.metric.events.min() <= self.reach**2
        return np.asarray(light & (spent <= self.reach**2 * (1.0 - _NEAR_END)))

    def in_full(self, risk: FloatArray, placed: TimeAtRisk) -> FloatArray:
        """(patients, pieces), of patients to whom the rules do nothing."""
        hazard, pieces = self.hazard, self.alpha.size
        part = np.where(np.arange(pieces) < placed.passed[:, None], -hazard, 0.0)
        row = np.flatnonzero(placed.passed < pieces)
        last = placed.passed[row]
        part[row, last] = -hazard[last] * placed.part[row]
        part *= risk[:, None]
        part[row, last] += placed.event[row]
        return part

    def applied(
        self, y: FloatArray, predictor: FloatArray, placed: TimeAtRisk
    ) -> tuple[FloatArray, FloatArray]:
        """(patients, pieces), and what is left out: (patients, 2)."""
        watch = self._watched(y, predictor, placed)
        expected = (watch.hazard * watch.lived - watch.gone).sum(axis=1)
        part = -watch.gone
        left_out = np.column_stack([np.zeros(len(y)), np.clip(expected, 0.0, MOST_LEFT_OUT)])
        rows = np.flatnonzero(placed.event & (placed.passed < self.alpha.size))
        last = placed.passed[rows]
        counted = np.where(watch.whole[rows], watch.weight[rows, last], 0.0)
        part[rows, last] += counted
        # An event counts as left out until so many were expected.
        left_out[rows, 0] = np.where(expected[rows] <= MOST_LEFT_OUT, 1.0 - counted, 0.0)
        return part, left_out

    def compensator(
        self, y: FloatArray, predictor: FloatArray, placed: TimeAtRisk
    ) -> tuple[FloatArray, FloatArray]:
        """Weighted, as far as it is watched, and |y_k|²: both (patients, pieces)."""
        watch = self._watched(y, predictor, placed)
        return watch.gone, np.maximum(watch.square - 1.0 / self.metric.events, 0.0)

    def _watched(self, y: FloatArray, predictor: FloatArray, placed: TimeAtRisk) -> _Watched:
        metric, means = self.metric, self.metric.whitened_means
        length, along = (y**2).sum(axis=1, keepdims=True), turn(y, means)
        square = length - 2.0 * along + (means**2).sum(axis=1) + 1.0 / metric.events
        square = np.maximum(square, 1.0 / metric.events)
        weight = np.minimum(1.0, self.reach / np.sqrt(square))
        hazard = np.exp(np.minimum(predictor[:, None] + self.alpha, _HIGHEST))
        rate, lived = weight * hazard, _lived(placed, self.alpha.size)
        left = self._left(length, along, rate, square, lived)
        ended: IntArray = np.cumsum(left < lived, axis=1)
        # The whole of the pieces before the end of the watch, and what is left in that one.
        last = (ended > 0) & (np.cumsum(ended > 0, axis=1) == 1)
        gone = rate * np.where(ended == 0, lived, np.where(last, left, 0.0))
        return _Watched(gone, hazard, lived, weight, square, ended[:, -1] == 0)

    def _left(
        self,
        size: FloatArray,
        along: FloatArray,
        rate: FloatArray,
        square: FloatArray,
        lived: FloatArray,
    ) -> FloatArray:
        """After which part of each piece the compensator is as long as the watch.

        It moves on a straight line in every piece, in (α, β), from where it is at its begin.
        `size` is |y|², `along` the products of y with the means, `square` the length of a part.
        """
        means, events = self.metric.whitened_means, self.metric.events
        gone = rate * lived
        total, shifted = _before(gone), _before(gone * along)
        # Of the means weighted so far, with the mean of the piece and with themselves.
        across = turn(gone, np.tril(means @ means.T, -1))
        length = (means**2).sum(axis=1)
        themselves = _before(2.0 * gone * across + gone**2 * length)
        long = _before(gone**2 / events) + size * total**2 - 2.0 * total * shifted + themselves
        room = np.maximum(self.reach**2 - long, 0.0)
        ahead = rate * (size * total - shifted - along * total + across)
        speed = rate**2 * square
        root = np.sqrt(ahead**2 + speed * room)
        with np.errstate(divide="ignore", invalid="ignore"):  # where nothing moves
            left = np.where(ahead > 0, room / (ahead + root), (root - ahead) / speed)
        return np.where(speed > 0, left, np.inf)


class _Watched(NamedTuple):
    """Of each patient in each piece, (patients, pieces); `whole`: watched to the end."""

    gone: FloatArray
    hazard: FloatArray
    lived: FloatArray
    weight: FloatArray
    square: FloatArray
    whole: BoolArray


def score_bound(reach: float) -> float:
    """The longest row of `score_rows`, as far as rules of weight and watch see to it."""
    return reach * math.hypot(1.0, LEFT_OUT * math.hypot(1.0, MOST_LEFT_OUT))


def _before(sums: FloatArray) -> FloatArray:
    """In each piece the sum over those before it."""
    return np.cumsum(sums, axis=1) - sums


def _lived(placed: TimeAtRisk, pieces: int) -> FloatArray:
    """How much of each piece each patient is at risk: (patients, pieces)."""
    lived = (np.arange(pieces) < placed.passed[:, None]).astype(np.float64)
    inside: IntArray = np.flatnonzero(placed.passed < pieces)
    lived[inside, placed.passed[inside]] = placed.part[inside]
    return lived
