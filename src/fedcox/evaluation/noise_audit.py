"""Do replies leave a center with the noise that is claimed? Seen at the center's own door.

The attacker knows everything but whether one patient took part, the one who moves the sum most.
They get a noised reply, with or without that patient, and guess: there, if the reply is past
the middle between the two sums, along what the patient adds. Where noise is such that a patient
moves a sum by μ of its standard deviations, the chances a of a false alarm and b of a miss keep
to (Dong, Roth and Su 2022)

    Φ⁻¹(1 − a) − Φ⁻¹(b) ≤ μ,

whatever the guess. So errors counted over many replies, bounded by Clopper and Pearson's
intervals, prove a least μ, and that is an epsilon at the claimed delta. Unlike a bound on
epsilon alone it takes thousands of replies, not millions, to tell a noise from one that is less
by half.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.stats import norm

from fedcox.evaluation.privacy_audit import at_most
from fedcox.federation.center import Center
from fedcox.federation.noised_replies import NoisedReplies
from fedcox.federation.queries.bounded_sums import NoisedMoments, NoisedScoreAt
from fedcox.federation.query import AbstractPrivateQuery
from fedcox.privacy.accountant import epsilon_of
from fedcox.privacy.noise import Randomness
from fedcox.privacy.release import GaussianRelease
from fedcox.survival.cohort import Cohort, FloatArray

NoisedQuestion = NoisedMoments | NoisedScoreAt

_OTHERS = 5  # patients beside the one; more would only take longer, as shares add up exactly
_FAR = 100.0  # spreads at which the one lies: beyond any bound on shares


@dataclass(frozen=True)
class NoiseAudit:
    """What is claimed of the replies to one question, and what an attack has proven.

    The claim is the epsilon of all rounds of a fit together. Where patients are sampled it is
    that of one round, for a patient who is known to be drawn: `sampled`.
    """

    question: str
    claimed: float
    delta: float
    lower_bound: float
    moved: float  # how far the patient moved the sum, in multiples of its sensitivity
    runs: int
    sampled: bool

    @property
    def consistent(self) -> bool:
        """Whether the attack left the claim standing."""
        return self.lower_bound <= self.claimed


def audit_noise(
    question: NoisedQuestion,
    cohort: Cohort,
    *,
    masked: bool,
    delta: float,
    runs: int,
    randomness: Randomness,
) -> NoiseAudit:
    """Attack replies of a center with some of these patients: `runs` with the one, and without.

    With `masked` the sum is over the fewest centers that the release allows, and each adds its
    part of the noise.
    """
    one = replace(question, release=_in_one_round(question.release))
    release = one.release
    others = _first(cohort, _OTHERS)
    joined = _with_patient(others, one)
    without = _exact(one, others)
    moved = _exact(one, joined) - without
    length = float(np.linalg.norm(moved))
    direction = moved / max(length, release.resolution)
    middle = float((without + moved / 2.0) @ direction)

    def seen(own: Cohort) -> FloatArray:
        parts = [own, *[_first(cohort, 0)] * (release.parts - 1)] if masked else [own]
        replies = [_noised_sum(one, parts, masked, delta, randomness) for _ in range(runs)]
        return np.array(replies) @ direction

    absent, there = seen(others), seen(joined)
    false_alarms, misses = int((absent > middle).sum()), int((there <= middle).sum())
    return NoiseAudit(
        question.name,
        claimed=epsilon_of(release, delta),
        delta=delta,
        lower_bound=_epsilon(proven_shift(false_alarms, misses, runs), delta),
        moved=length / release.sensitivity,
        runs=runs,
        sampled=question.release.sampling_rate < 1.0,
    )


def proven_shift(false_alarms: int, misses: int, runs: int) -> float:
    """The least μ under which so few errors, each kind in as many `runs`, are no accident."""
    alarm, miss = at_most(np.array([false_alarms, misses]), runs)
    return max(0.0, float(norm.isf(alarm) - norm.ppf(miss)))


def _epsilon(shift: float, delta: float) -> float:
    """The epsilon of Gaussian noise by which a patient moves a sum by so many deviations."""
    return epsilon_of(GaussianRelease(1.0 / shift, 1.0), delta) if shift > 0.0 else 0.0


def _in_one_round(release: GaussianRelease) -> GaussianRelease:
    """One round that tells as much as the whole fit, or as one round with a sampled patient.

    Gaussian noise on many sums tells as much as less of it, by the root of their number, on
    one, which takes fewer replies to attack.
    """
    if release.sampling_rate < 1.0:
        return replace(release, sampling_rate=1.0, releases=1)
    multiplier = release.noise_multiplier / math.sqrt(release.releases)
    return replace(release, noise_multiplier=multiplier, releases=1)


def _exact(question: AbstractPrivateQuery[Any], cohort: Cohort) -> FloatArray:
    return question.pack(question.answer(cohort))


def _noised_sum(
    question: AbstractPrivateQuery[Any],
    cohorts: Sequence[Cohort],
    masked: bool,
    delta: float,
    randomness: Randomness,
) -> FloatArray:
    """What is seen of centers that answer for the first time, as the door lets it out."""
    centers = [
        Center("audited", own, noise=NoisedReplies("audit", delta, randomness=randomness))
        for own in cohorts
    ]
    replies = [question.pack(center.answer(question, masked=masked)) for center in centers]
    return np.asarray(np.sum(replies, axis=0))


def _first(cohort: Cohort, patients: int) -> Cohort:
    return Cohort(cohort.covariates[:patients], cohort.time[:patients], cohort.event[:patients])


def _with_patient(others: Cohort, question: NoisedQuestion) -> Cohort:
    """One more, far out where risk is high, and at risk to the end without the event."""
    time, sign = 1.0, np.ones(1)
    if isinstance(question, NoisedScoreAt):
        scaling, time = question.agreed.scaling, question.agreed.grid.horizon
        sign = np.where(question.beta < 0, -1.0, 1.0)
    else:
        scaling = question.scaling
    covariates = np.zeros(others.columns)
    covariates[scaling.keep] = scaling.mean + _FAR * sign * scaling.spread
    return Cohort(
        np.vstack([others.covariates, covariates]),
        np.append(others.time, time),
        np.append(others.event, False),
    )
