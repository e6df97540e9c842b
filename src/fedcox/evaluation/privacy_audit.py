"""Is a claimed epsilon true? An attack that must fail, and what it proves if it does not.

The attacker knows everything but whether one patient took part. They see noised sums, with or
without that patient, and guess. Under (ε, δ) no guess is right much more often than wrong,

    P(says "there" | there) ≤ exp(ε) · P(says "there" | not there) + δ,

so how often the guess was right, over many runs, is proof of a least ε. The chances are bounded
by Clopper and Pearson's intervals, and the guess – a threshold on the sum in the patient's own
direction – is chosen on other runs than those that are counted. A claim above the bound is not
proven by that; a claim below it is wrong.

The noise here is drawn as it ought to be, so this judges how far a patient can move a sum.
Whether replies leave a center with that noise is seen in `noise_audit.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import beta as beta_distribution

from fedcox.privacy.accountant import epsilon_of
from fedcox.privacy.noise import (
    Randomness,
    chosen_by_chance,
    discrete_gaussian,
    noise_variance,
)
from fedcox.privacy.release import GaussianRelease
from fedcox.survival.cohort import FloatArray, IntArray

#: The lower bound is wrong in at most this share of audits.
_ERROR = 0.01
_CANDIDATES = 400  # thresholds among which the attacker chooses


@dataclass(frozen=True)
class PrivacyAudit:
    """What was claimed, and what an attack on so many runs has proven."""

    claimed: float
    delta: float
    lower_bound: float
    moved: float  # how far the patient moved the sum, in multiples of its sensitivity
    runs: int

    @property
    def consistent(self) -> bool:
        """Whether the attack left the claim standing."""
        return self.lower_bound <= self.claimed


def audit_sums(
    without: FloatArray,
    moved: FloatArray,
    release: GaussianRelease,
    *,
    delta: float,
    runs: int,
    randomness: Randomness,
) -> PrivacyAudit:
    """Attack a sum `without` the patient and the same with it, which is `moved` farther.

    Both lie on the release's grid. Each of `runs` draws the noise of all releases.
    """
    length = float(np.linalg.norm(moved))
    direction = moved / max(length, release.resolution)
    absent, there = (
        _seen(float(without @ direction), shift, direction, release, runs, randomness)
        for shift in (0.0, float(moved @ direction))
    )
    return PrivacyAudit(
        claimed=epsilon_of(release, delta),
        delta=delta,
        lower_bound=lower_bound(absent, there, delta),
        moved=length / release.sensitivity,
        runs=runs,
    )


def _seen(
    start: float,
    shift: float,
    direction: FloatArray,
    release: GaussianRelease,
    runs: int,
    randomness: Randomness,
) -> FloatArray:
    """The attacker's statistic in every run: all releases of the sum, along the direction.

    Where patients are sampled, the patient shifts only those sums for which they were drawn.
    """
    variance = noise_variance(release, direction.size, masked=False)
    seen = np.zeros(runs)
    for _ in range(release.releases):
        drawn = chosen_by_chance(runs, release.sampling_rate, randomness)
        noise = discrete_gaussian(variance, runs * direction.size, randomness)
        seen += start + shift * drawn
        seen += noise.reshape(runs, -1) @ direction * release.resolution
    return seen


def lower_bound(absent: FloatArray, there: FloatArray, delta: float) -> float:
    """The epsilon proven by a statistic that is larger when the patient is there.

    The first half of the runs chooses the threshold and the way of guessing; the second half
    is counted.
    """
    half = absent.size // 2
    first, second = (absent[:half], there[:half]), (absent[half:], there[half:])
    thresholds = np.quantile(np.concatenate(first), np.linspace(0.0, 1.0, _CANDIDATES))
    promised = _proven(*first, thresholds, delta)
    way, best = np.unravel_index(np.argmax(promised), promised.shape)
    found = _proven(*second, thresholds[[best]], delta)
    return max(0.0, float(found[way, 0]))


def _proven(
    absent: FloatArray, there: FloatArray, thresholds: FloatArray, delta: float
) -> FloatArray:
    """log((P₁ − δ) / P₂) with the chances bounded from the attacker's worse side.

    First by guessing "there" above the threshold; then by guessing "not there" below it, which
    is as good a proof.
    """
    below = np.array(
        [np.searchsorted(np.sort(seen), thresholds, side="right") for seen in (absent, there)]
    )
    right = np.array([there.size - below[1], below[0]])
    wrong = np.array([absent.size - below[0], below[1]])
    least, most = at_least(right, there.size) - delta, at_most(wrong, absent.size)
    return np.log(np.maximum(least, np.finfo(float).tiny) / most)


def at_least(count: IntArray, total: int) -> FloatArray:
    """Chances below which so many successes of `total` would be a rare accident."""
    low = beta_distribution.ppf(_ERROR / 2.0, np.maximum(count, 1), total - count + 1)
    return np.where(count == 0, 0.0, low)


def at_most(count: IntArray, total: int) -> FloatArray:
    """Chances above which so few successes of `total` would be a rare accident."""
    high = beta_distribution.ppf(1.0 - _ERROR / 2.0, count + 1, np.maximum(total - count, 1))
    return np.where(count == total, 1.0, high)
