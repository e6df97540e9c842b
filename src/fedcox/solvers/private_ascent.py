"""Scores under noise, and where they point to: steps, and what they stand for.

Every score is a noisy Newton step to the optimum from where it was asked. All of these steps
together are the estimate. With one of them the information is asked for, for the others and
for standard errors.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import chdtri

from fedcox.federation.queries.bounded_sums import NoisedInformationAt, NoisedScoreAt
from fedcox.federation.query import Federation
from fedcox.federation.setting import Setting
from fedcox.survival.bounded_rows import square_of
from fedcox.survival.bounded_shares import (
    ACROSS,
    LEFT_OUT,
    ScoreMetric,
    information_bound,
    score_bound,
)
from fedcox.survival.cohort import BoolArray, FloatArray

if TYPE_CHECKING:
    from fedcox.solvers.private_newton import PrivateNewton, PublicScale

#: How much an event may weigh, and until when a patient is watched, in standard deviations of
#: a usual patient's score.
_REACH = 40.0
#: The largest trace of one patient's information, in units of the usual one, and of how many
#: parameters at least: with few a level need not be rare to have more.
_CAP_INFORMATION, _FEWEST_PARAMETERS = 5.0, 5
#: How far a Newton step is off, in parts of itself: by what the information may be off, and by
#: the curvature, with the square of the distance.
_OFF, _CURVED = 0.3, 0.1
#: And where few patients decide, with the square of how much farther than near an effect moves,
#: as a log hazard from one end of its column to the other.
_BENT, _NEAR = 5.0, 0.3
#: No parameter moves by more in one step.
_LONGEST_STEP = 1.2
#: The information counts as no smaller in any direction.
_LEAST = 0.05
#: No column moves farther than this from one end to the other, as a log hazard.
_FARTHEST = 30.0
#: Between so many standard deviations most patients are.
_MOST_PATIENTS = 4.0
#: From one end to the other an effect that has an end moves by no more, once the information
#: was asked for.
_SETTLED = 0.5
#: The largest ratio of a level that is told from one without end, and how many errors the
#: events of a level must be from none.
_LARGEST_RATIO, _ANY_EVENTS = 50.0, 3.0
#: An answer needs: information beyond its own noise by this factor, less noise than so many
#: sampling errors, a last score no larger than so many times what is due.
CLEAR, NOISY, _LARGE = 2.0, 1.5, 4.0
#: How often the last score may be too large by chance.
_CHANCE = 1e-4
#: What is left of a score where there is next to no noise, as a mean square.
_RESIDUAL = 1e-3
#: How far fewer events than expected may be left out, in standard deviations: where it is not
#: clear that some are expected there, and where it is, by so many standard deviations of noise.
_SURPRISE, _SURPRISE_OF_MANY, _MANY, _MANY_EVENTS = 2.33, 1.28, 4.0, 10.0
#: How much of the information the means of the pieces usually move by.
_USUAL_MOVE = 0.1
#: The order of the curve by which mean covariates of those with the event move in time.
_CURVE = 3


class LeftOut(NamedTuple):
    """What weights and watch leave out: events, and how many the model expects there."""

    events: float
    expected: float
    noise: float  # standard deviation of each

    @property
    def many(self) -> bool:
        """Whether it is clear of the noise that the model expects events there."""
        return self.expected > max(_MANY * self.noise, _MANY_EVENTS)

    @property
    def surprise(self) -> float:
        """How far the events are from what is expected, in standard deviations."""
        spread = math.sqrt(max(self.expected, 0.0) + 2.0 * self.noise**2)
        return (self.events - self.expected) / spread


@dataclass(frozen=True, eq=False)
class PrivateSolution:
    """Where a private fit ended, on the setting's scale.

    `covariance` is that of β, noise included, `noise` the noise of the estimate in the metric,
    and `price` the factor by which it makes standard errors larger, about. `faults` say why
    nothing can be inferred; empty if it can.
    """

    setting: Setting
    metric: ScoreMetric
    alpha: FloatArray
    beta: FloatArray
    covariance: FloatArray
    noise: float
    price: float
    patients: float
    releases: int
    left_out: LeftOut
    faults: tuple[str, ...]
    separated: BoolArray  # (columns,) whose effects have no end, as far as noise tells


class PrivateAscent:
    """The scores so far, and where they point to."""

    def __init__(
        self,
        setting: Setting,
        metric: ScoreMetric,
        alpha: FloatArray,
        scale: PublicScale,
        solver: PrivateNewton,
    ) -> None:
        self._setting, self._metric, self._solver = setting, metric, solver
        self._events = float(metric.events.sum())
        #: From one end of each column to the other, as scaled, of numbers no farther than most
        #: patients are; and which columns are levels of which category.
        self._categories = scale.levels
        spread = np.linalg.norm(np.linalg.inv(metric.whitening), axis=1) / self._events**0.5
        widths = scale.widths / setting.scaling.spread
        most = np.where(scale.are_numbers, _MOST_PATIENTS * spread, math.inf)
        self._widths = np.minimum(widths, most)
        self._reach = reach_of(metric.events.size, setting.columns, self._events)
        self._here = np.append(alpha, np.zeros(setting.columns))
        self._points: list[FloatArray] = []
        self._scores: list[FloatArray] = []
        self._noises: list[float] = []
        self._left_out: list[FloatArray] = []
        #: Of the information on the coefficients, in the metric.
        self._values, self._directions = np.ones(setting.columns), np.eye(setting.columns)
        self._clear = False
        #: The same with its noise, how large that is, and where it was asked for; and the noise
        #: of the estimate there.
        self._information, self._information_noise = np.eye(setting.columns), 0.0
        self._information_at, self._noise_there = np.zeros(setting.columns), 0.0
        #: Of the place where the next score is asked; then what is due of that score.
        self._noise_here = self._due = 0.0

    @property
    def _point(self) -> tuple[FloatArray, FloatArray]:
        pieces = self._setting.intervals
        return self._here[:pieces].copy(), self._here[pieces:].copy()

    def ask(
        self, federation: Federation, share: float, alike: int, *, information: bool = False
    ) -> None:
        """One more score, of so many with this share; then step to where all of them point.

        With the `information` here, by which these and the steps to come are taken.
        """
        reach = self._reach
        release = self._solver.release(score_bound(reach), share, alike)
        score = NoisedScoreAt(self._setting, *self._point, self._metric, reach, release)
        queries = [score, self._information_here] if information else [score]
        (sums, noise), *others = self._solver.ask(federation, *queries)
        self._left_out.append(sums[-2:] / (LEFT_OUT * reach))
        self._points.append(self._here)
        self._scores.append(sums[:-2].copy())
        self._due = noise**2 + self._noise_here**2 + _RESIDUAL
        self._noises.append(noise)
        for square in others:
            self._inform(*square)
        self._move()

    def _move(self) -> None:
        """To where all scores point, if it is not too far."""
        target, weights = self._together()
        step = np.clip(target - self._here, -_LONGEST_STEP, _LONGEST_STEP)
        self._here = self._here + step
        self._noise_here = float(np.linalg.norm(weights * self._noises))

    @property
    def _information_here(self) -> NoisedInformationAt:
        solver, cap = self._solver, self._cap
        release = solver.release(information_bound(cap), solver.information)
        return NoisedInformationAt(
            self._setting, *self._point, self._metric, self._reach, cap, release
        )

    @property
    def _cap(self) -> float:
        return information_cap(self._setting.columns, self._events)

    def _inform(self, sums: FloatArray, noise: float) -> None:
        """By the information here, for the steps to come; those so far are taken anew."""
        cap = self._cap
        across = sums[-self._metric.means.size :].reshape(self._metric.means.shape)
        across = self._moved(across / (ACROSS * cap), noise / (ACROSS * cap))
        square = square_of(sums[: -across.size]) - across.T @ across
        self._information, self._information_noise = square, noise
        self._information_at = self._here[self._setting.intervals :]
        self._noise_there = self._noise_here
        values, self._directions = np.linalg.eigh(square)
        unsure = spread_of(noise, self._setting.columns)
        self._clear = bool(values.min(initial=np.inf) > CLEAR * unsure)
        self._values = np.maximum(values, max(_LEAST, min(unsure, 0.3)))

    def _moved(self, across: FloatArray, noise: float) -> FloatArray:
        """The means of the pieces are those of the model from here on: (pieces, columns).

        `across` is Σ g y of every piece. Returned is by how much the means move, as the
        covariance of the score in the pieces with that of the coefficients.
        """
        metric, events = self._metric, self._metric.events
        usual = _USUAL_MOVE / float(events.sum())
        moved = smooth(across / events[:, None], events, noise * np.eye(across.shape[1]), usual)
        root = np.sqrt(events)[:, None] * moved
        for score in self._scores:
            score[events.size :] -= score[: events.size] @ root
        means = metric.means + np.linalg.solve(metric.whitening, moved.T).T
        self._metric = ScoreMetric(events, means, metric.whitening)
        return np.asarray(root)

    def _of_beta(self, score: FloatArray, power: float) -> FloatArray:
        """The score with a power of the information before the part of the coefficients."""
        pieces = self._setting.intervals
        turned = (self._values**power) * (self._directions.T @ score[pieces:])
        return np.append(score[:pieces], self._directions @ turned)

    def _far(self, point: FloatArray, other: FloatArray) -> float:
        """The largest difference of an effect, from one end of a column to the other."""
        moved = (point - other)[self._setting.intervals :] * self._widths
        return float(np.abs(moved).max(initial=0.0))

    def _together(self) -> tuple[FloatArray, FloatArray]:
        """The mean of all targets, and the weight of each: less from afar, and by its noise."""
        noises = np.array(self._noises)
        steps = [self._metric.step(self._of_beta(score, -1.0)) for score in self._scores]
        targets = np.array(self._points) + np.array(steps)
        together = targets[-1]
        for _ in range(5):
            ways = [self._metric.score_of(point - together) for point in self._points]
            ways = [self._of_beta(way, 0.5) for way in ways]
            distance = np.array([float(way @ way) for way in ways])
            curved = _CURVED * np.minimum(distance / self._events, 4.0)
            far = np.array([self._far(point, together) for point in self._points])
            curved += _BENT * np.maximum(far - _NEAR, 0.0) ** 2
            weights = 1.0 / (noises**2 + distance * (curved + _OFF**2) + 1e-12)
            weights /= weights.sum()
            together = weights @ targets
        return together, weights

    def solution(self, patients: float, faults: Sequence[str]) -> PrivateSolution:
        """The end, given why nothing can be inferred from what came before the scores."""
        together, weights = self._together()
        noises, pieces = np.array(self._noises), self._setting.intervals
        noise = float(np.linalg.norm(weights * noises))
        faults = [*faults, *self._faults(noise)]
        separated = np.zeros(self._setting.columns, dtype=np.bool_)
        events, expected = (weights @ np.array(self._left_out)).tolist()
        left_out = LeftOut(events, expected, noise / (LEFT_OUT * self._reach))
        if not faults:  # in noise and nothing else there is no more to be seen
            separated = self._separated(weights, together[pieces:])
            if separated.any():
                faults.append(
                    "at one end of a covariate there are events only, or hardly any, or noise "
                    "makes it look so"
                )
            if left_out.surprise < -(_SURPRISE_OF_MANY if left_out.many else _SURPRISE):
                faults.append(
                    "the model does not hold for patients whose covariates lie far out, or "
                    "noise makes it look so"
                )
        # What is noise and nothing else may lie anywhere: then no farther than steps led.
        end = self._here if faults else together
        return PrivateSolution(
            self._setting,
            self._metric,
            end[:pieces],
            end[pieces:],
            self._covariance(noise),
            noise,
            math.sqrt(1.0 + noise**2 * float(np.mean(1.0 / self._values))),
            patients,
            self._solver.releases,
            left_out,
            tuple(faults),
            separated,
        )

    def _faults(self, noise: float) -> list[str]:
        """Why nothing can be inferred, as far as noise and the last score tell."""
        reasons = {
            "the information of some covariate is lost in its noise": not self._clear,
            "the noise is larger than the sampling error": noise > NOISY,
            "the last score is too far from zero": self._last > self._largest,
        }
        return [reason for reason, holds in reasons.items() if holds]

    def _separated(self, weights: FloatArray, beta: FloatArray) -> BoolArray:
        """Columns at one end of which there are no events, or at the other events only.

        The information v on the coefficient of a level, from 0 to 1, whose one end is rare is
        about the events to expect there, and the score u the events less these. As the
        coefficient moves by d they become v·exp(±d). So every score tells v·exp(±d) ± u, the
        events themselves. Elsewhere, as v·(exp(±d) ∓ d), that is never much less than v.
        What gets by still moves at the end, or is far out; so are the effects of numbers.
        """
        pieces, each = self._setting.intervals, np.eye(beta.size)
        # Who has the reference level of a category has none of its columns.
        ends = np.vstack([each, self._categories])
        root = (ends / self._widths) @ np.linalg.inv(self._metric.whitening)
        usual = (root**2).sum(axis=1)  # information without effects
        information = np.einsum("ij,jk,ik->i", root, self._information, root) / usual
        scores = np.array([score[pieces:] for score in self._scores]) @ root.T / usual
        points = np.array([point[pieces:] for point in self._points])
        moved = np.clip((points - self._information_at) * self._widths, -_FARTHEST, _FARTHEST)
        moved = moved @ (ends / ends.sum(axis=1)[:, None]).T
        noise = np.linalg.norm(weights * self._noises) / np.sqrt(usual)
        gone = np.zeros(len(ends), dtype=np.bool_)
        for end in (-1.0, 1.0):
            share = np.exp(end * moved)
            events = weights @ (information * share + end * scores)
            unsure = np.hypot(noise, self._information_noise * (weights @ share))
            gone |= events < np.maximum(_LEAST, _ANY_EVENTS * unsure)
        levels = self._categories.any(axis=0)
        without = levels & (gone @ ends > 0)
        far_out = levels & (np.abs(beta * self._widths) > math.log(_LARGEST_RATIO))
        usually = self._noise_there * np.linalg.norm(self._metric.whitening, axis=0)
        moving = np.abs(beta - self._information_at) > _SETTLED / self._widths + 2.0 * usually
        return np.asarray(without | far_out | moving)

    def _covariance(self, noise: float) -> FloatArray:
        """Of β: that of the sample, and of noise of this size in the metric."""
        values = 1.0 / self._values + noise**2 / self._values**2
        root = self._metric.whitening.T @ self._directions
        return np.asarray((root * values) @ root.T)

    @property
    def _last(self) -> float:
        """The mean square of the last score."""
        return float(self._scores[-1] @ self._scores[-1]) / self._scores[-1].size

    @property
    def _largest(self) -> float:
        """How large the last score may be at the optimum."""
        # Of few numbers the mean square may be large by chance alone.
        by_chance = 1.3 * float(chdtri(self._here.size, _CHANCE)) / self._here.size
        return max(_LARGE, by_chance) * self._due


def smooth(
    means: FloatArray, events: FloatArray, noise: FloatArray, usual: float = math.inf
) -> FloatArray:
    """Means of the pieces, (pieces, columns), as a curve through them.

    It is made of polynomials in the order of the events. What noise alone would make of each
    is taken off, and more where noise is large beside what is `usual`, as a square. `noise`
    times its transpose is the covariance of the noise of a sum.
    """
    total = float(events.sum())
    heights = (2.0 * np.cumsum(events) - events) / total - 1.0
    order = min(_CURVE, events.size - 1)
    root = np.sqrt(events / total)
    shapes, _ = np.linalg.qr(root[:, None] * np.vander(heights, order + 1, increasing=True))
    parts = shapes.T @ (root[:, None] * means)
    # A part is the sum of shape · root · sum of the piece / its events.
    spread = (shapes**2 / (events * total)[:, None]).sum(axis=0) * float((noise**2).sum())
    length = (parts**2).sum(axis=1)
    kept = np.where(length > 2.0 * spread, 1.0 - spread / np.maximum(length, 1e-300), 0.0)
    kept = np.minimum(kept, 1.0 / (1.0 + spread / usual))
    return np.asarray((shapes @ (kept[:, None] * parts)) / root[:, None])


def information_cap(columns: int, events: float) -> float:
    """The root of the largest trace of one patient's information."""
    return math.sqrt(usual_traces(columns) / events)


def usual_traces(columns: int) -> float:
    """How many times the information of an event one patient's may be."""
    return _CAP_INFORMATION * max(columns + 1, _FEWEST_PARAMETERS)


def reach_of(pieces: int, columns: int, events: float) -> float:
    """How long an event's part of the score may be, and a compensator."""
    return math.sqrt((pieces + _REACH * columns) / events)


def spread_of(noise: float, columns: int) -> float:
    """How far noise in every entry moves the eigenvalues of a symmetric matrix."""
    return 0.7 * noise * math.sqrt(columns)
