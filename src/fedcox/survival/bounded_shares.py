"""What one patient adds to a noised sum: rows of numbers, none longer than a bound.

Cutting a finished row would bias what is estimated. Here a patient weighs less, or is watched
for less time, by rules that look at its covariates and at time alone and never at what happens
to it afterwards. So every sum is right on average (docs/mathematics.md). Rows of a fit stay
below their bound by these rules; that every caller cuts them there is for the proof.

What becomes of a row does not depend, to the last bit, on the other rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fedcox.survival.cohort import BoolArray, FloatArray, IntArray
from fedcox.survival.linear_predictor import linear_predictor
from fedcox.survival.time_grid import TimeAtRisk

#: Who is bound is counted in this part of the jump.
BOUND = 0.25
#: Beyond this no exponential is taken; a hazard so large ends the watch at once.
_HIGHEST = 300.0
#: Who is nearer to the end of the watch than this is looked at piece by piece.
_SLACK = 1e-9


@dataclass(frozen=True, eq=False)
class ScoreMetric:
    """In which units the score is measured: standard deviations, in every direction.

    With d_k events in piece k and z̄_k = center + h_k · drift the mean covariates of those who
    have the event in it, the part of one event at covariates z is

        e_k / √d_k    and    whitening · (z − z̄_k).

    events      (pieces,) d_k
    heights     (pieces,) h_k, from -1 to 1, zero on average over events
    center      (columns,)
    drift       (columns,)
    whitening   (columns, columns)
    """

    events: FloatArray
    heights: FloatArray
    center: FloatArray
    drift: FloatArray
    whitening: FloatArray

    @property
    def size(self) -> int:
        return int(self.events.size + self.center.size)

    @property
    def numbers(self) -> int:
        """How many numbers describe it to a center."""
        return int(2 * self.events.size + 2 * self.center.size + self.whitening.size)

    @property
    def whitened_drift(self) -> FloatArray:
        return np.asarray(self.whitening @ self.drift)

    def step(self, score: FloatArray) -> FloatArray:
        """The Newton step in (α, β) that a score in this metric asks for."""
        of_alpha, of_beta = np.split(score, [self.events.size])
        beta = self.whitening.T @ of_beta
        return np.append(of_alpha / np.sqrt(self.events) - self._means(beta), beta)

    def score_of(self, step: FloatArray) -> FloatArray:
        """The score whose step in (α, β) this is."""
        alpha, beta = np.split(step, [self.events.size])
        of_beta = np.linalg.solve(self.whitening.T, beta)
        return np.append(np.sqrt(self.events) * (alpha + self._means(beta)), of_beta)

    def _means(self, beta: FloatArray) -> FloatArray:
        """β · z̄_k of each piece."""
        return float(beta @ self.center) + self.heights * float(beta @ self.drift)


def moment_rows(covariates: FloatArray, numbers: BoolArray) -> FloatArray:
    """Every column, and the square of those that are `numbers`: (patients, sums).

    Numbers lie between -1 and 1; the others are the levels of categories, of which a patient
    has one or none.
    """
    kept = np.clip(covariates, -1.0, 1.0)
    return np.hstack([kept, kept[:, numbers] ** 2])


def moment_bound(numbers: int, categories: int) -> float:
    """The longest row of `moment_rows`."""
    return math.sqrt(2 * numbers + categories)


def event_rows(
    covariates: FloatArray, placed: TimeAtRisk, heights: FloatArray, cap: float
) -> FloatArray:
    """Products of y = [1, z] of those with the event: (patients, sums).

    Each is weighted by w² with w = min(1, cap / |y|), which looks at covariates alone. First
    the upper triangle of y yᵀ, where what stands for two entries counts √2, then z by the
    height of the piece: no row is longer than `event_bound`.
    """
    y = np.hstack([np.ones((covariates.shape[0], 1)), covariates])
    happened = placed.event & (placed.passed < heights.size)
    weight = happened * np.minimum(1.0, cap**2 / (y**2).sum(axis=1))
    row, column = np.triu_indices(y.shape[1])
    height = np.append(heights, 0.0)[np.minimum(placed.passed, heights.size)]
    factor = np.where(row == column, 1.0, math.sqrt(2.0))
    products = y[:, row] * y[:, column] * factor * weight[:, None]
    return np.hstack([products, covariates * (weight * height)[:, None]])


def event_bound(cap: float) -> float:
    """The longest row of `event_rows`, where heights are between -1 and 1."""
    return math.hypot(cap**2, cap)


@dataclass(frozen=True, eq=False)
class EventProducts:
    """Sums of `event_rows`: w² y yᵀ, and w² h z, over events."""

    square: FloatArray  # (columns + 1, columns + 1)
    by_height: FloatArray  # (columns,)

    @classmethod
    def of(cls, vector: FloatArray, columns: int) -> EventProducts:
        row, column = np.triu_indices(columns + 1)
        square = np.zeros((columns + 1, columns + 1))
        square[row, column] = vector[: row.size] / np.where(row == column, 1.0, math.sqrt(2.0))
        square[column, row] = square[row, column]
        return cls(square, vector[row.size :])


def score_rows(
    covariates: FloatArray,
    placed: TimeAtRisk,
    point: tuple[FloatArray, FloatArray],
    metric: ScoreMetric,
    jump: float,
    watch: float,
) -> FloatArray:
    """Each patient's part of the score at (α, β), in the metric.

    (patients, pieces + columns + 1): the last number is `BOUND` times the jump for patients who
    weigh less than they would, or are watched for less time; zero for all others.

    With b_k(z) the part of one event at covariates z in piece k, weights are
    w_k = min(1, jump / |b_k|). A patient is watched until Σ w_k |b_k| a_k r · (part of the
    piece lived through) reaches `watch`; an event after that does not count.
    """
    alpha, beta = point
    rules = _Rules(alpha, metric, jump, watch)
    centered = covariates - metric.center
    y = np.zeros_like(centered)
    for column, own in enumerate(metric.whitening.T):  # no matrix product: see above
        y += centered[:, column, None] * own
    predictor = linear_predictor(covariates, beta)
    rows = np.empty((len(y), alpha.size + beta.size + 1))
    with np.errstate(over="ignore", invalid="ignore"):
        part, bound = rules.in_full(np.exp(predictor), placed), np.zeros(len(y))
        some = np.flatnonzero(~rules.certainly_free(y, predictor, placed))
        if some.size:
            of_some = rules.applied(y[some], predictor[some], placed.rows(some))
            part[some], bound[some] = of_some
        total = part.sum(axis=1, keepdims=True)
        shift = (part * metric.heights).sum(axis=1, keepdims=True)
        np.multiply(part, 1.0 / np.sqrt(metric.events), out=rows[:, : alpha.size])
        np.multiply(y, total, out=rows[:, alpha.size : -1])
        rows[:, alpha.size : -1] -= metric.whitened_drift * shift
        rows[:, -1] = bound
    return rows


@dataclass(frozen=True, eq=False)
class _Rules:
    """Weight and watch, of patients with whitened covariates y: event less compensator."""

    alpha: FloatArray
    metric: ScoreMetric
    jump: float
    watch: float

    @property
    def hazard(self) -> FloatArray:
        """In each piece, of a patient at covariates of zero."""
        return np.exp(np.minimum(self.alpha, _HIGHEST))

    def certainly_free(
        self, y: FloatArray, predictor: FloatArray, placed: TimeAtRisk
    ) -> BoolArray:
        """Who has no weight below one and is watched to the end, by bounds quickly found.

        They are nearly all; for the others `applied` looks at every piece.
        """
        heights, drift = self.metric.heights, self.metric.whitened_drift
        along = (y * drift).sum(axis=1)
        square = (y**2).sum(axis=1) + 1.0 / self.metric.events.min()
        square += float((heights**2).max() * (drift @ drift))
        square -= 2.0 * np.minimum(heights.min() * along, heights.max() * along)
        longest = np.sqrt(square)
        hazard = np.append(self.hazard, 0.0)
        before = np.append(0.0, np.cumsum(hazard[:-1]))
        passed = np.minimum(placed.passed, self.alpha.size)
        spent = np.exp(predictor) * (before[passed] + hazard[passed] * placed.part) * longest
        return np.asarray((longest <= self.jump) & (spent <= self.watch * (1.0 - _SLACK)))

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
        """(patients, pieces), and the mark of who is bound."""
        metric, drift, pieces = self.metric, self.metric.whitened_drift, self.alpha.size
        along = (y * drift).sum(axis=1, keepdims=True)
        square = (y**2).sum(axis=1, keepdims=True) - 2.0 * metric.heights * along
        square += 1.0 / metric.events + metric.heights**2 * float(drift @ drift)
        length = np.sqrt(np.maximum(square, 1.0 / metric.events))
        weight = np.minimum(1.0, self.jump / length)
        rate = weight * np.exp(np.minimum(predictor[:, None] + self.alpha, _HIGHEST))
        speed = rate * length
        lived = _lived(placed, pieces)
        passed = np.cumsum(speed * lived, axis=1)
        before = passed - speed * lived
        with np.errstate(divide="ignore"):
            left = np.maximum((self.watch - before) / speed, 0.0)
        part = -rate * np.where(speed > 0, np.minimum(lived, left), lived)
        whole = passed[:, -1] <= self.watch
        rows = np.flatnonzero(placed.event & (placed.passed < pieces) & whole)
        part[rows, placed.passed[rows]] += weight[rows, placed.passed[rows]]
        lighter = ((weight < 1.0) & (lived > 0)).any(axis=1)
        return part, BOUND * self.jump * (~whole | lighter)


def score_bound(jump: float, watch: float) -> float:
    """The longest row of `score_rows`, as far as rules of weight and watch see to it."""
    return math.hypot(max(jump, watch), BOUND * jump)


def _lived(placed: TimeAtRisk, pieces: int) -> FloatArray:
    """How much of each piece each patient is at risk: (patients, pieces)."""
    lived = (np.arange(pieces) < placed.passed[:, None]).astype(np.float64)
    inside: IntArray = np.flatnonzero(placed.passed < pieces)
    lived[inside, placed.passed[inside]] = placed.part[inside]
    return lived
