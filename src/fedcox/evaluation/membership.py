"""Was this patient in the study? An attack on noise that must fail, and what it proves if not.

The attacker knows all patients but one, and whom they look for: the patient within the public
ranges who moves the sums most. They see every noised sum of the study, with or without that
patient, and guess by the exact likelihood ratio of Gaussian noise. Under (ε, δ) no guess is
right much more often than wrong,

    P(says "there" | there) ≤ exp(ε) · P(says "there" | not there) + δ,

and the same the other way round. So how often guesses were right, over many trials, proves a
least ε, whatever the noise is: chances are bounded by Clopper and Pearson's intervals, and the
threshold is chosen on other trials than those that judge. To prove a large ε so takes exp(ε)
trials. A second bound takes fewer: where noise is Gaussian, and one patient moves the sums by μ
of its standard deviations, chances a of a false alarm and b of a miss keep to (Dong, Roth and
Su 2022)

    Φ⁻¹(1 − a) − Φ⁻¹(b) ≤ μ,

so that errors prove a least μ, and an ε that belongs to it. A claim below one of the bounds is
wrong; a claim above both is not proven.

Replies come out of centers by the same door as in a study. Besides all sums together, each is
looked at alone: one that leaves without its noise gives the patient away by itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from time import monotonic

import numpy as np
from scipy.stats import beta as beta_distribution
from scipy.stats import norm

from fedcox.data.schema import CategoryColumn, CohortSchema, NumberColumn
from fedcox.federation.center import Center
from fedcox.federation.noised_replies import NoisedReplies
from fedcox.federation.queries.bounded_sums import AbstractBoundedSum
from fedcox.federation.setting import Setting
from fedcox.privacy.accountant import (
    epsilon_against_other_centers,
    epsilon_of,
    gaussian_epsilon,
)
from fedcox.privacy.noise import Randomness, SystemRandomness
from fedcox.survival.cohort import Cohort, FloatArray, IntArray

TRIALS = 400
#: A bound is wrong in at most this share of audits.
ERROR = 0.01
_FEWEST = 40  # trials, whatever the time
_OTHERS = 20  # patients beside the one; more would only take longer, as shares add up exactly
_TRIED, _KEPT = 2000, 3  # patients who might move the sums most
_THRESHOLDS = 200
_ROUNDING = 1e-4  # of shares, to the grid of a release


@dataclass(frozen=True)
class Measured:
    """A claimed epsilon, and what guesses have proven of it.

    `lower_bound` stands whatever the noise is, `gaussian_bound` where it is Gaussian.
    """

    claimed: float
    lower_bound: float
    gaussian_bound: float

    @property
    def proven(self) -> float:
        """The larger of the two bounds."""
        return max(self.lower_bound, self.gaussian_bound)

    @property
    def consistent(self) -> bool:
        """Whether the attack left the claim standing."""
        return self.proven <= self.claimed


@dataclass(frozen=True)
class MembershipAudit:
    """What all noised sums of a study tell of one patient.

    Against whoever sees the sums; and against all other centers together, who know the noise
    that they added themselves. `moved` is how far the patient moves all sums, in parts of what
    the claim allows for.
    """

    coordinator: Measured
    centers: Measured
    delta: float
    moved: float
    sums: int
    trials: int

    @property
    def consistent(self) -> bool:
        """Whether guesses left both claims standing, and no patient moves sums too far."""
        stand = self.coordinator.consistent and self.centers.consistent
        return stand and self.moved <= 1.0 + _ROUNDING


def audit_membership(
    questions: Sequence[AbstractBoundedSum],
    cohort: Cohort,
    schema: CohortSchema,
    *,
    masked: bool,
    delta: float,
    trials: int = TRIALS,
    seconds: float = math.inf,
    randomness: Randomness | None = None,
) -> MembershipAudit:
    """Attack all sums of a study, `trials` times with the patient and as often without.

    With `masked` each is a sum over the fewest centers that may answer, and each of them adds
    its part of the noise. After so many `seconds` there are fewer trials.
    """
    drawn = SystemRandomness() if randomness is None else randomness
    others = cohort.take(np.arange(min(_OTHERS, cohort.patients)))
    patient = _worst(questions, others, schema, drawn)
    joined = Cohort.joined([others, patient])
    without = [_exact(question, others, drawn) for question in questions]
    moved = [
        _exact(question, joined, drawn) - sums
        for question, sums in zip(questions, without, strict=True)
    ]
    door = _Door(questions, without, moved, delta, masked, drawn)
    seen: list[list[FloatArray]] = []
    end = monotonic() + seconds
    while len(seen) < trials and (len(seen) < _FEWEST or monotonic() < end):
        seen.append([door.ratios(patients) for patients in (others, joined)])
    absent, there = np.array(seen).transpose(1, 2, 3, 0)
    whole = questions[0].release
    against = whole if masked else replace(whole, fewest_centers=None)
    return MembershipAudit(
        _measured(absent[0], there[0], epsilon_of(whole, delta), delta),
        _measured(absent[1], there[1], epsilon_against_other_centers(against, delta), delta),
        delta,
        math.sqrt(door.square) * (whole.whole or whole.noise_multiplier),
        len(questions),
        len(seen),
    )


def _measured(absent: FloatArray, there: FloatArray, claimed: float, delta: float) -> Measured:
    raw, shift = bounds(absent, there, delta)
    gaussian = gaussian_epsilon(1.0 / shift, delta) if shift > 0 else 0.0
    return Measured(claimed, raw, gaussian)


@dataclass(frozen=True, eq=False)
class _Door:
    """Centers that answer all questions of a study anew, and what the attacker makes of it."""

    questions: Sequence[AbstractBoundedSum]
    without: Sequence[FloatArray]
    moved: Sequence[FloatArray]
    delta: float
    masked: bool
    randomness: Randomness

    @property
    def square(self) -> float:
        """How far the patient moves all sums, in standard deviations, squared."""
        pairs = zip(self.questions, self.moved, strict=True)
        return math.fsum(_deviations(question, moved) ** 2 for question, moved in pairs)

    def ratios(self, cohort: Cohort) -> FloatArray:
        """Log likelihood ratios of one study, up to a factor and a constant: (2, 1 + sums).

        Of all sums together and of each; by the sums, and by what one center adds to them.
        """
        centers, ratios = self._centers(cohort), np.zeros((2, 1 + len(self.questions)))
        for number, question in enumerate(self.questions):
            replies = [center.answer(question, masked=self.masked) for center in centers]
            ratios[:, 1 + number] = [
                self._ratio(number, reply) for reply in (np.sum(replies, axis=0), replies[0])
            ]
        ratios[:, 0] = ratios[:, 1:].sum(axis=1)
        return ratios

    def _centers(self, cohort: Cohort) -> list[Center]:
        """The fewest that may answer; all patients are in one of them."""
        nobody = cohort.take(np.empty(0, dtype=np.int64))
        parts = self.questions[0].release.parts if self.masked else 1
        return [
            Center(
                "audited",
                part,
                noise=NoisedReplies("audit", self.delta, randomness=self.randomness),
            )
            for part in (cohort, *[nobody] * (parts - 1))
        ]

    def _ratio(self, number: int, reply: FloatArray) -> float:
        release = self.questions[number].release
        deviation = release.noise_multiplier * release.sensitivity
        return float((reply - self.without[number]) @ self.moved[number]) / deviation**2


def _exact(question: AbstractBoundedSum, cohort: Cohort, randomness: Randomness) -> FloatArray:
    return question.pack(question.private_answer(cohort, randomness))


def _deviations(question: AbstractBoundedSum, moved: FloatArray) -> float:
    """How far a sum is moved, in standard deviations of its noise."""
    release = question.release
    return float(np.linalg.norm(moved)) / (release.noise_multiplier * release.sensitivity)


# The patient who moves the sums most.


def _worst(
    questions: Sequence[AbstractBoundedSum],
    others: Cohort,
    schema: CohortSchema,
    randomness: Randomness,
) -> Cohort:
    """Of many patients within the public ranges, one by one."""
    settings = (question.setting for question in questions)
    horizon = max(each.grid.horizon for each in settings if isinstance(each, Setting))
    some = _invented(schema, horizon, np.random.default_rng(0))
    every = np.arange(some.patients)
    uncut, cut = np.zeros(some.patients), np.zeros(some.patients)
    seen = np.ones(some.patients, dtype=np.bool_)  # in every sum, so that none goes unattacked
    for question in questions:
        release = question.release
        length = np.linalg.norm(question.rows(some, every), axis=1)
        deviation = release.noise_multiplier * release.sensitivity
        seen &= length > 0
        uncut += (length / deviation) ** 2
        cut += (np.minimum(length, release.sensitivity) / deviation) ** 2
    if seen.any():
        uncut, cut = uncut * seen, cut * seen
    best = np.union1d(np.argsort(uncut)[-_KEPT:], np.argsort(cut)[-_KEPT:])
    before = [_exact(question, others, randomness) for question in questions]

    def moved(number: int) -> float:
        joined = Cohort.joined([others, some.take(np.array([number]))])
        return math.fsum(
            _deviations(question, _exact(question, joined, randomness) - sums) ** 2
            for question, sums in zip(questions, before, strict=True)
        )

    return some.take(np.array([max(best.tolist(), key=moved)]))


def _invented(schema: CohortSchema, horizon: float, rng: np.random.Generator) -> Cohort:
    """Patients at the ends of the ranges and inside, with every kind of outcome."""
    columns = [_drawn(column, rng) for column in schema.covariates]
    time = np.where(rng.random(_TRIED) < 0.5, horizon, rng.uniform(0.0, horizon, _TRIED))
    event = rng.random(_TRIED) < 0.5
    return Cohort(np.hstack(columns), np.maximum(time, 1e-3 * horizon), event)


def _drawn(column: CategoryColumn | NumberColumn, rng: np.random.Generator) -> FloatArray:
    if isinstance(column, CategoryColumn):
        levels = len(column.compared_levels)
        return np.vstack([np.zeros(levels), np.eye(levels)])[
            rng.integers(0, levels + 1, _TRIED)
        ]
    low, high = column.minimum, column.maximum
    if low is None or high is None:
        raise ValueError("Under noise a study names the ranges of its numbers.")
    ends = np.where(rng.random(_TRIED) < 0.5, low, high)
    inside = rng.uniform(low, high, _TRIED)
    return np.asarray(np.where(rng.random(_TRIED) < 0.7, ends, inside)[:, None])


# What guesses prove.


def bounds(absent: FloatArray, there: FloatArray, delta: float) -> tuple[float, float]:
    """A least ε, and a least μ, by statistics that are larger when the patient is there.

    Both are (statistics, trials). The first half of the trials chooses the statistic, the
    threshold and the way of guessing; the second half is counted.
    """
    half = absent.shape[1] // 2
    choices: list[tuple[float, float, int, float]] = []
    for number in range(len(absent)):
        first = absent[number, :half], there[number, :half]
        thresholds = _between(np.concatenate(first))
        epsilons, shifts = _proven(*first, thresholds, delta)
        choices += zip(
            epsilons.tolist(),
            shifts.tolist(),
            [number] * thresholds.size,
            thresholds.tolist(),
            strict=True,
        )
    judged = []
    for place in (0, 1):
        *_, number, threshold = max(choices, key=lambda choice: choice[place])
        second = absent[number, half:], there[number, half:]
        judged.append(float(_proven(*second, np.array([threshold]), delta)[place][0]))
    return max(0.0, judged[0]), max(0.0, judged[1])


def _between(seen: FloatArray) -> FloatArray:
    """Thresholds in the middle between values that were seen."""
    values = np.unique(seen)
    if values.size > _THRESHOLDS:
        values = np.quantile(values, np.linspace(0.0, 1.0, _THRESHOLDS))
    return np.asarray(0.5 * (values[:-1] + values[1:]))


def _proven(
    absent: FloatArray, there: FloatArray, thresholds: FloatArray, delta: float
) -> tuple[FloatArray, FloatArray]:
    """ε and μ with the chances bounded from the attacker's worse side, for every threshold.

    ε by guessing "there" above the threshold, or "not there" below it, whichever proves more.
    """
    alarms = (absent[:, None] > thresholds).sum(axis=0)
    misses = (there[:, None] <= thresholds).sum(axis=0)
    alarm, miss = at_most(alarms, absent.size), at_most(misses, there.size)
    tiny = np.finfo(float).tiny
    said_there = np.log(np.maximum(1.0 - miss - delta, tiny) / alarm)
    said_absent = np.log(np.maximum(1.0 - alarm - delta, tiny) / miss)
    shift = norm.isf(alarm) - norm.ppf(miss)
    return np.maximum(said_there, said_absent), np.asarray(shift)


def at_most(count: IntArray, total: int) -> FloatArray:
    """Chances above which so few of `total` would be a rare accident."""
    high = beta_distribution.ppf(1.0 - ERROR / 2.0, count + 1, np.maximum(total - count, 1))
    return np.where(count == total, 1.0, high)
