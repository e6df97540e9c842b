from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from fedcox.evaluation.noise_audit import (
    NoiseAudit,
    NoisedQuestion,
    audit_noise,
    proven_shift,
)
from fedcox.federation import noised_replies
from fedcox.federation.queries.bounded_sums import NoisedMoments, NoisedScoreAt
from fedcox.federation.setting import Setting
from fedcox.privacy.noise import Randomness, SeededRandomnessForSimulations
from fedcox.privacy.noise import noised as honest
from fedcox.privacy.release import GaussianRelease
from fedcox.survival.bounded_shares import ScoreMetric
from fedcox.survival.clipping import on_grid, shortened
from fedcox.survival.cohort import Cohort, FloatArray
from fedcox.survival.link import Log
from fedcox.survival.scaling import Scaling
from fedcox.survival.time_grid import Pieces

DELTA = 1e-5
RUNS = 400
#: Sixteen sums under it tell as much as one with a noise of 1.2 times the sensitivity.
RELEASE = GaussianRelease(4.8, 0.7, releases=16, fewest_centers=3)

SCALING = Scaling(np.array([0, 2]), np.array([1.0, -3.0]), np.array([0.5, 2.0]))
PATIENTS = Cohort(
    np.array([[1.0, 9.0, np.nan], [0.5, 9.0, -2.0], [2.0, 9.0, -5.0]]),
    np.array([0.5, 2.5, 3.0]),
    np.array([True, False, True]),
)
DOORS = pytest.mark.parametrize("masked", [False, True])
KINDS = pytest.mark.parametrize("kind", [NoisedScoreAt, NoisedMoments])


def question(kind: type[NoisedQuestion], release: GaussianRelease = RELEASE) -> NoisedQuestion:
    both = np.ones(2, dtype=np.bool_)
    if kind is NoisedMoments:
        return NoisedMoments(SCALING, both, release)
    pieces = Pieces.on_units(np.array([0.0, 1.0, 2.0, 3.0]), None)
    setting = Setting(pieces, np.ones(3, dtype=np.bool_), "include", Log(), SCALING)
    metric = ScoreMetric(np.ones(3), np.zeros(3), np.zeros(2), np.zeros(2), np.eye(2))
    beta = np.array([0.2, -0.1])
    return NoisedScoreAt(setting, np.full(3, -1.0), beta, metric, 2.0, 3.0, release)


def audited(asked: NoisedQuestion, *, masked: bool, runs: int = RUNS) -> NoiseAudit:
    return audit_noise(
        asked,
        PATIENTS,
        masked=masked,
        delta=DELTA,
        runs=runs,
        randomness=SeededRandomnessForSimulations(0),
    )


@KINDS
@DOORS
def test_the_noise_that_centers_add_stands(kind: type[NoisedQuestion], masked: bool) -> None:
    found = audited(question(kind), masked=masked)
    assert found.consistent
    assert found.moved == pytest.approx(1.0, rel=1e-5), "nobody could move it farther"
    assert found.lower_bound > 0.3 * found.claimed, "the attack is a real one"
    assert found.question == question(kind).name


@KINDS
@DOORS
def test_no_noise_at_all_is_caught(
    monkeypatch: pytest.MonkeyPatch, kind: type[NoisedQuestion], masked: bool
) -> None:
    def nothing(
        vector: FloatArray, release: GaussianRelease, randomness: Randomness, *, masked: bool
    ) -> FloatArray:
        return vector

    monkeypatch.setattr(noised_replies, "noised", nothing)
    found = audited(question(kind), masked=masked, runs=100)
    assert not found.consistent
    assert found.lower_bound > 3.0 * found.claimed


@KINDS
@DOORS
def test_a_part_of_the_noise_given_as_the_whole_is_caught(
    monkeypatch: pytest.MonkeyPatch, kind: type[NoisedQuestion], masked: bool
) -> None:
    """σ/√parts in a reply that is seen; or parts that are divided once more."""

    def too_little(
        vector: FloatArray, release: GaussianRelease, randomness: Randomness, *, masked: bool
    ) -> FloatArray:
        if masked:
            finer = replace(release, fewest_centers=release.parts**2)
            return on_grid(honest(vector, finer, randomness, masked=True), release.resolution)
        return honest(vector, release, randomness, masked=True)

    monkeypatch.setattr(noised_replies, "noised", too_little)
    found = audited(question(kind), masked=masked)
    assert not found.consistent


@KINDS
def test_shares_that_are_clipped_too_late_are_caught(
    monkeypatch: pytest.MonkeyPatch, kind: type[NoisedQuestion]
) -> None:
    def late(rows: FloatArray, bound: float) -> FloatArray:
        return shortened(rows, 2.0 * bound)

    monkeypatch.setattr("fedcox.federation.queries.bounded_sums.shortened", late)
    found = audited(question(kind), masked=False)
    assert found.moved == pytest.approx(2.0, rel=1e-5)
    assert not found.consistent


@KINDS
def test_sampled_sums_are_audited_as_one_sum_with_the_patient_drawn(
    kind: type[NoisedQuestion],
) -> None:
    sampled = replace(RELEASE, noise_multiplier=1.2, sampling_rate=0.01)
    found = audited(question(kind, sampled), masked=False)
    assert found.sampled
    assert found.claimed == pytest.approx(_gaussian_epsilon(1.0 / 1.2), rel=1e-3)
    assert 0.3 * found.claimed < found.lower_bound <= found.claimed


def test_the_same_claim_whether_in_one_round_or_in_many() -> None:
    once = replace(RELEASE, noise_multiplier=1.2, releases=1)
    many, one = (
        audited(question(NoisedMoments, each), masked=True, runs=50) for each in (RELEASE, once)
    )
    assert many == one
    assert many.claimed == pytest.approx(_gaussian_epsilon(1.0 / 1.2), rel=1e-3)


def test_an_honest_claim_is_rarely_called_wrong() -> None:
    """Errors drawn by their very chances, under the best guess there is."""
    rng, moved = np.random.default_rng(0), 0.8
    errors = rng.binomial(2000, norm.sf(moved / 2.0), size=(2000, 2))
    wrong = sum(
        proven_shift(int(alarms), int(misses), 2000) > moved for alarms, misses in errors
    )
    assert wrong <= 20, "one in a hundred"


@pytest.mark.parametrize(("alarms", "misses"), [(500, 500), (1000, 0), (700, 600)])
def test_guesses_no_better_than_a_coin_prove_nothing(alarms: int, misses: int) -> None:
    assert proven_shift(alarms, misses, 1000) == 0.0


def _gaussian_epsilon(moved: float) -> float:
    """Where Balle and Wang's (2018) exact delta of Gaussian noise is the one claimed."""

    def excess(epsilon: float) -> float:
        low, high = moved / 2.0 - epsilon / moved, -moved / 2.0 - epsilon / moved
        return float(norm.cdf(low) - math.exp(epsilon) * norm.cdf(high)) - DELTA

    return float(brentq(excess, 1e-6, 40.0))
