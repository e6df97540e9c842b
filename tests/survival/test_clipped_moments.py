from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedcox.survival.clipped_moments import ClippedMoments, clipped_moments, moment_scale
from fedcox.survival.cohort import FloatArray
from fedcox.survival.scaling import Scaling

FINE = 2.0**-30
VALUES = st.floats(allow_nan=False, allow_infinity=False) | st.floats(-3.0, 3.0)


def packed(moments: ClippedMoments) -> FloatArray:
    return np.concatenate([[moments.patients], moments.totals, moments.squares])


@given(
    covariates=arrays(np.float64, st.tuples(st.integers(1, 5), st.just(3)), elements=VALUES),
    resolution=st.sampled_from([2.0**-4, FINE]),
)
@settings(max_examples=200, deadline=None)
def test_one_patient_more_or_less_moves_the_sums_by_at_most_the_bound(
    covariates: FloatArray, resolution: float
) -> None:
    def summed(rows: list[int]) -> FloatArray:
        chosen = np.array(rows, dtype=np.int64)
        return packed(clipped_moments(covariates, 0.7, resolution=resolution, patients=chosen))

    everybody = list(range(len(covariates)))
    for left_out in everybody:
        moved = summed(everybody) - summed([row for row in everybody if row != left_out])
        assert np.linalg.norm(moved) <= 0.7 + 0.5 * resolution * np.sqrt(7)


def test_ordinary_patients_are_not_shortened() -> None:
    covariates = np.random.default_rng(0).uniform(-1.2, 1.2, (500, 4))
    found = clipped_moments(covariates, 1.5, resolution=FINE, patients=np.arange(500))
    scale = moment_scale(4, 1.5)
    assert found.patients / scale == pytest.approx(500, rel=1e-6)
    np.testing.assert_allclose(found.totals / scale, covariates.sum(axis=0), atol=1e-5)
    np.testing.assert_allclose(found.squares / scale, (covariates**2).sum(axis=0), rtol=1e-6)


def test_without_noise_the_scale_is_that_of_the_covariates() -> None:
    public = Scaling(np.array([0, 2]), np.array([50.0, 0.5]), np.array([20.0, 0.5]))
    rng = np.random.default_rng(1)
    values = np.column_stack(
        [rng.uniform(35.0, 70.0, 4000), rng.uniform(size=4000), rng.uniform(size=4000) < 0.2]
    )
    scaled = np.empty((4000, 2))
    public.apply(values, out=scaled)
    moments = clipped_moments(scaled, 1.5, resolution=FINE, patients=np.arange(4000))
    found = moments.scaling(public, 0.0)
    assert found.keep.tolist() == [0, 2]
    np.testing.assert_allclose(found.mean, values[:, [0, 2]].mean(axis=0), rtol=1e-4)
    np.testing.assert_allclose(found.spread, values[:, [0, 2]].std(axis=0), rtol=1e-3)


@pytest.mark.parametrize("patients", [-3.0, 0.0, 100.0])
def test_what_noise_drowns_stays_on_the_public_scale(patients: float) -> None:
    public = Scaling(np.array([0]), np.array([5.0]), np.array([2.0]))
    drowned = ClippedMoments(patients, np.array([-300.0]), np.array([-500.0]))
    found = drowned.scaling(public, noise=1e6)
    np.testing.assert_allclose(found.mean, public.mean, atol=1e-6)
    np.testing.assert_allclose(found.spread, public.spread, atol=1e-6)


def test_a_spread_is_never_taken_from_noise_alone() -> None:
    """Squares below what is possible: the spread stays positive, and finite above it."""
    public = Scaling(np.array([0, 1]), np.zeros(2), np.ones(2))
    found = ClippedMoments(10.0, np.zeros(2), np.array([-5.0, 1e6])).scaling(public, 0.1)
    assert 0.2 <= found.spread[0] < found.spread[1] <= 2.0
