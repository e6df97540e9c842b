"""A claimed epsilon stands up to an attacker who knows all patients but one; faults do not."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest, norm

from fedcox.evaluation.audit import Protection, audit
from fedcox.evaluation.membership import ERROR, MembershipAudit, at_most, bounds
from fedcox.federation.noised_replies import NoisedReplies
from fedcox.federation.queries import bounded_sums
from fedcox.privacy.accountant import gaussian_epsilon
from fedcox.privacy.noise import SeededRandomnessForSimulations, SystemRandomness
from fedcox.privacy.noise import noised as add_noise
from fedcox.survival.bounded_shares import score_rows
from fedcox.survival.cohort import Cohort, FloatArray
from tests.evaluation.attacks.few_values import centers_of, patients, study

DELTA = 1e-5


def audited(protection: Protection, epsilon: float = 3.0, trials: int = 200) -> MembershipAudit:
    plan = study("sex", "stage", privacy={"noise": {"epsilon": epsilon, "patients": 1500}})
    found = audit(
        plan,
        centers_of(plan, patients(1500, seed=3)),
        protections=[protection],
        attacks=[],
        trials=trials,
    )
    return found.membership[protection]


@pytest.mark.parametrize("protection", [Protection.NOISE, Protection.MASKED_NOISE])
def test_the_claim_stands_against_a_real_attack(
    protection: Protection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A few hundred guesses need not prove anything: these do, with noise from a seed."""
    source = SeededRandomnessForSimulations(6)
    monkeypatch.setattr(SystemRandomness, "bits", lambda _, count: source.bits(count))
    found = audited(protection, epsilon=8.0, trials=300)
    assert found.consistent
    assert found.coordinator.claimed == pytest.approx(8.0, rel=1e-3)
    assert found.coordinator.gaussian_bound > 0.1 * found.coordinator.claimed
    assert found.coordinator.lower_bound > 0
    assert 0.5 < found.moved <= 1.0 + 1e-6

    if protection is Protection.NOISE:
        return
    # Hospitals know the noise that they added themselves.
    assert found.centers.claimed > 1.5 * found.coordinator.claimed
    assert found.centers.gaussian_bound > 1.2 * found.coordinator.gaussian_bound
    assert found.centers.consistent


def test_weights_that_look_at_the_outcome_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    rows_of = score_rows

    def faulty(covariates: FloatArray, placed: Any, *rest: Any) -> FloatArray:
        rows = rows_of(covariates, placed, *rest)
        return np.asarray(rows * np.where(placed.event, 20.0, 1.0)[:, None])

    monkeypatch.setattr(bounded_sums, "score_rows", faulty)
    assert audited(Protection.NOISE).consistent, "rows are cut: the claim still holds"
    monkeypatch.setattr(bounded_sums, "shortened", lambda rows, bound: rows)
    found = audited(Protection.NOISE)
    assert not found.consistent
    assert found.coordinator.gaussian_bound > found.coordinator.claimed
    assert found.moved > 1.5


@pytest.mark.parametrize("protection", [Protection.NOISE, Protection.MASKED_NOISE])
def test_one_sum_without_its_noise_is_caught(
    monkeypatch: pytest.MonkeyPatch, protection: Protection
) -> None:
    vector_of = NoisedReplies.vector

    def once(self: NoisedReplies, query: Any, cohort: Cohort, **more: Any) -> FloatArray:
        reply = vector_of(self, query, cohort, **more)
        bare = isinstance(query, bounded_sums.NoisedEventMoments)
        return query.pack(query.answer(cohort)) if bare else reply

    monkeypatch.setattr(NoisedReplies, "vector", once)
    found = audited(protection, trials=300)
    assert not found.consistent
    assert found.coordinator.lower_bound > found.coordinator.claimed


def test_too_little_noise_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def less(vector: FloatArray, *rest: Any, **more: Any) -> FloatArray:
        return np.asarray(vector + (add_noise(vector, *rest, **more) - vector) / 4.0)

    monkeypatch.setattr("fedcox.federation.noised_replies.noised", less)
    assert not audited(Protection.NOISE).consistent


# The bounds, against chances that are known.


def test_chances_are_bounded_as_by_scipy() -> None:
    for successes in (0, 3, 40, 100):
        known = binomtest(successes, 100).proportion_ci(1.0 - ERROR, method="exact").high
        assert at_most(np.array([successes]), 100)[0] == pytest.approx(known)


def test_gaussian_shifts_are_proven_up_to_their_own_epsilon() -> None:
    rng = np.random.default_rng(0)
    beyond = 0
    for _ in range(200):
        absent = rng.normal(size=(3, 800))
        there = rng.normal(size=(3, 800))
        there[0] += 1.0
        raw, shift = bounds(absent, there, DELTA)
        beyond += raw > gaussian_epsilon(1.0, DELTA) or shift > 1.0
        assert raw >= 0
        assert shift >= 0
    assert beyond <= 2 * 200 * ERROR + 3.0 * math.sqrt(200 * ERROR)
    assert shift > 0.5


def test_nothing_is_proven_of_what_tells_nothing() -> None:
    rng = np.random.default_rng(1)
    proven = [
        bounds(rng.normal(size=(4, 400)), rng.normal(size=(4, 400)), DELTA) for _ in range(100)
    ]
    assert np.mean([max(one) > 0 for one in proven]) <= 2 * ERROR + 0.03


def test_of_all_sums_the_one_that_tells_is_chosen() -> None:
    rng = np.random.default_rng(2)
    absent, there = rng.normal(size=(5, 400)), rng.normal(size=(5, 400))
    absent[3], there[3] = 0.0, 1e-9  # without noise the smallest difference is enough
    raw, shift = bounds(absent, there, DELTA)
    least = at_most(np.array([0]), 200)[0]
    assert raw == pytest.approx(math.log((1 - least - DELTA) / least))
    assert shift == pytest.approx(2 * norm.isf(least))
