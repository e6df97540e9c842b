from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binomtest

from fedcox.evaluation.privacy_audit import (
    at_least,
    at_most,
    audit_sums,
    lower_bound,
)
from fedcox.privacy.noise import SeededRandomnessForSimulations
from fedcox.privacy.release import GaussianRelease

DELTA = 1e-5
RUNS = 20_000


def test_a_sum_that_moves_farther_than_its_sensitivity_is_caught() -> None:
    found = audit_sums(
        np.zeros(4),
        np.array([0.0, 4.0, 0.0, 0.0]),
        GaussianRelease(3.0, 1.0),
        delta=DELTA,
        runs=RUNS,
        randomness=SeededRandomnessForSimulations(3),
    )
    assert not found.consistent


def test_sampling_protects_only_while_nobody_knows_who_was_drawn() -> None:
    """The same noise; who knows when the patient was drawn proves the claim wrong."""
    secret, known = (
        audit_sums(
            np.zeros(2),
            np.array([1.0, 0.0]),
            GaussianRelease(1.0, 1.0, sampling_rate=rate, releases=4),
            delta=DELTA,
            runs=RUNS,
            randomness=SeededRandomnessForSimulations(4),
        )
        for rate in (0.1, 1.0)
    )
    assert secret.consistent
    assert secret.claimed < known.lower_bound < known.claimed


def test_no_difference_proves_nothing() -> None:
    rng = np.random.default_rng(0)
    found = [lower_bound(rng.normal(size=4000), rng.normal(size=4000), 0.0) for _ in range(20)]
    assert max(found) < 0.15
    assert sorted(found)[10] == 0.0


def test_the_bound_is_below_the_truth_of_randomised_response() -> None:
    """Says the truth by 3/4 and a lie by 1/4: ε = ln 3, and the attack finds nearly that."""
    rng = np.random.default_rng(1)
    absent = (rng.uniform(size=40_000) < 0.25).astype(float)
    there = (rng.uniform(size=40_000) < 0.75).astype(float)
    assert 0.95 * math.log(3) < lower_bound(absent, there, 0.0) < math.log(3)


@pytest.mark.parametrize(("count", "total"), [(0, 50), (7, 50), (50, 50)])
def test_chances_are_bounded_by_clopper_and_pearson(count: int, total: int) -> None:
    expected = binomtest(count, total).proportion_ci(0.99, method="exact")
    assert at_least(np.array(count), total) == pytest.approx(expected.low, abs=1e-12)
    assert at_most(np.array(count), total) == pytest.approx(expected.high, abs=1e-12)
