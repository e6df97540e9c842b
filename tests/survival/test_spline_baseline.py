"""The smooth baseline: a natural cubic spline, and the best one without covariates."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.interpolate import CubicSpline
from scipy.optimize import minimize

from fedcox.errors import CohortError
from fedcox.survival.cohort import FloatArray
from fedcox.survival.spline_baseline import spline_basis, without_effects

BOUNDS = np.append(0.0, np.cumsum(np.linspace(1.0, 9.0, 12)))
MIDDLE = np.log(0.5 * (BOUNDS[:-1] + BOUNDS[1:]))


@pytest.mark.parametrize("size", [2, 3, 4, 5])
def test_the_basis_holds_every_natural_spline_whose_knots_have_equal_events_between(
    size: int,
) -> None:
    basis = spline_basis(BOUNDS, np.ones(12), size)
    knots = np.log(np.append(0.5, BOUNDS[1:])[:: 12 // (size - 1)])  # zero has no logarithm
    values = np.random.default_rng(size).normal(size=size)
    if size == 2:
        wanted = np.interp(MIDDLE, knots, values)
    else:
        wanted = CubicSpline(knots, values, bc_type="natural")(MIDDLE)
    gamma = np.linalg.lstsq(basis, wanted)[0]
    np.testing.assert_allclose(basis @ gamma, wanted, atol=1e-10)


def test_where_the_events_are_columns_are_apart_and_of_size_one() -> None:
    events = np.arange(12.0) % 5
    basis = spline_basis(BOUNDS, events, 4)
    np.testing.assert_allclose((basis.T * events / events.sum()) @ basis, np.eye(4), atol=1e-9)


def test_a_spline_needs_as_many_times_with_events_as_it_has_numbers() -> None:
    events = np.where(np.arange(12) < 4, 3.0, 0.0)
    assert spline_basis(BOUNDS, events, 4).shape == (12, 4)
    with pytest.raises(CohortError, match="5 numbers needs events at 5 times"):
        spline_basis(BOUNDS, events, 5)


@pytest.mark.parametrize("events", [np.full(12, 4.0), np.arange(12.0) ** 2 % 7])
def test_without_effects_the_baseline_is_the_most_likely_one(events: FloatArray) -> None:
    at_risk = np.linspace(300.0, 20.0, 12)
    basis, offset = spline_basis(BOUNDS, events, 4), np.log(np.diff(BOUNDS))
    gamma, loss = without_effects(basis, offset, at_risk, events)

    def minus_log_likelihood(gamma: FloatArray) -> float:
        alpha = offset + basis @ gamma
        return float((at_risk * np.exp(alpha)).sum() - (events * alpha).sum())

    best = minimize(minus_log_likelihood, gamma, method="BFGS", options={"gtol": 1e-6})
    assert loss == pytest.approx(minus_log_likelihood(gamma), rel=1e-12)
    assert loss == pytest.approx(best.fun, rel=1e-9)
    expected = at_risk * np.exp(offset + basis @ gamma)
    np.testing.assert_allclose(basis.T @ expected, basis.T @ events, atol=1e-4)
