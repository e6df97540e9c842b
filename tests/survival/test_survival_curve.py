"""Survival from baseline and log risk, by cases a reader can check."""

from __future__ import annotations

import numpy as np
import pytest

from fedcox.errors import StudyError
from fedcox.survival.link import AbstractLink, ComplementaryLogLog, Logit
from fedcox.survival.survival_curve import (
    CurveError,
    PiecewiseHazard,
    interval_hazard,
    places_of_ends,
    quantile_time,
    steps_reached,
    survival,
)

LINKS: tuple[AbstractLink, ...] = (ComplementaryLogLog(), Logit())


def test_logit_hazards_of_a_half_halve_the_survivors() -> None:
    curve = survival(np.zeros(3), np.zeros(1), link=Logit())
    np.testing.assert_allclose(curve, [[0.5, 0.25, 0.125]], rtol=1e-15)


def test_cloglog_survival_is_the_exponential_of_the_summed_hazard() -> None:
    # cumulative baseline hazards 0.1, 0.3; a patient at twice the risk has 0.2, 0.6
    curve = survival(np.log([0.1, 0.2]), np.log([1.0, 2.0]), link=ComplementaryLogLog())
    np.testing.assert_allclose(curve, np.exp([[-0.1, -0.3], [-0.2, -0.6]]), rtol=1e-14)


def test_a_hazard_ratio_of_two_squares_the_cloglog_survival() -> None:
    alpha = np.array([-3.0, -2.0, -4.0])
    base, double = survival(alpha, np.log([1.0, 2.0]), link=ComplementaryLogLog())
    np.testing.assert_allclose(double, base**2, rtol=1e-14)


def test_a_hazard_odds_ratio_multiplies_the_odds_of_the_logit_hazard() -> None:
    base, triple = interval_hazard(np.array([-1.0, 0.5]), np.log([1.0, 3.0]), link=Logit())
    np.testing.assert_allclose(triple / (1 - triple), 3 * base / (1 - base), rtol=1e-14)


@pytest.mark.parametrize("link", LINKS, ids=lambda link: link.name)
def test_survival_is_the_product_of_surviving_each_interval(link: AbstractLink) -> None:
    rng = np.random.default_rng(3)
    alpha, log_risk = rng.normal(-2, 1, 12), rng.normal(0, 1, 5)
    expected = np.cumprod(1 - interval_hazard(alpha, log_risk, link=link), axis=1)
    np.testing.assert_allclose(survival(alpha, log_risk, link=link), expected, rtol=1e-12)


@pytest.mark.parametrize("link", LINKS, ids=lambda link: link.name)
def test_an_interval_without_events_leaves_survival_where_it_was(link: AbstractLink) -> None:
    curve = survival(np.array([-np.inf, -1.0, -np.inf]), np.zeros(1), link=link)[0]
    assert curve[0] == 1.0
    assert curve[1] == curve[2] < 1


@pytest.mark.parametrize("link", LINKS, ids=lambda link: link.name)
def test_nobody_survives_an_interval_of_events_only(link: AbstractLink) -> None:
    curve = survival(np.array([-1.0, np.inf, -np.inf]), np.array([-5.0, 5.0]), link=link)
    assert (curve[:, 0] > 0).all()
    assert (curve[:, 1:] == 0).all()


@pytest.mark.parametrize("link", LINKS, ids=lambda link: link.name)
def test_extreme_baselines_give_finite_survival(link: AbstractLink) -> None:
    alpha = np.array([-1e4, -745.0, 0.0, 745.0, 1e4])
    log_risk = np.array([-1e4, 0.0, 1e4])
    for curve in (
        survival(alpha, log_risk, link=link),
        interval_hazard(alpha, log_risk, link=link),
    ):
        assert np.isfinite(curve).all()
        assert ((curve >= 0) & (curve <= 1)).all()


@pytest.mark.parametrize("link", LINKS, ids=lambda link: link.name)
def test_a_far_away_origin_of_the_covariates_costs_no_accuracy(link: AbstractLink) -> None:
    # alpha is at covariates zero: birth years give -800 here and +800 in the log risk.
    near = survival(np.array([-2.0, -3.0]), np.array([0.25]), link=link)
    far = survival(np.array([-802.0, -803.0]), np.array([800.25]), link=link)
    np.testing.assert_allclose(far, near, rtol=1e-12)


@pytest.mark.parametrize("link", LINKS, ids=lambda link: link.name)
def test_no_patients_and_no_intervals_give_empty_curves(link: AbstractLink) -> None:
    assert survival(np.zeros(4), np.zeros(0), link=link).shape == (0, 4)
    assert survival(np.zeros(0), np.zeros(2), link=link).shape == (2, 0)


def test_the_median_is_the_first_interval_end_at_or_below_a_half() -> None:
    curves = np.array([[0.9, 0.5, 0.2], [0.4, 0.3, 0.1], [0.9, 0.8, 0.51]])
    np.testing.assert_array_equal(
        quantile_time(curves, np.array([30.0, 60.0, 90.0])), [60.0, 30.0, np.nan]
    )


def test_the_median_of_a_curve_without_intervals_is_not_reached() -> None:
    assert np.isnan(quantile_time(np.empty((2, 0)), np.empty(0))).all()


@pytest.mark.parametrize(
    ("every", "at", "x", "variance"),
    [
        (True, 1.0, 0.0, 0.04),
        (True, 2.0, 0.0, 0.04 + 0.25 * 0.16),  # within a piece by the square
        (False, 2.0, 0.0, 0.04 + 0.5 * 0.16),  # along with the hazard, piece by piece
        (True, 2.0, 2.0, 0.08 + 0.25 * (2.0 * 2.0 - 1.25) ** 2),
        (False, 0.01, 0.0, 0.01**2),  # no more than one event tells
    ],
)
def test_errors_of_curves_between_the_points_where_they_are_kept(
    every: bool, at: float, x: float, variance: float
) -> None:
    mean = np.array([[0.0], [0.5], [2.0]])
    error = CurveError(np.array([0.0, 1.0, 3.0]), np.array([0.0, 0.04, 0.2]), mean, every)
    found = error.relative(np.array([at]), np.array([[x]]), np.array([[0.25]]))
    if x == 0.0:  # a patient at the mean of everyone: what is left is how risk sets differ
        variance += 0.25 * np.interp(at, error.hazard, mean[:, 0]) ** 2
    np.testing.assert_allclose(found, [[np.sqrt(variance) / at]], rtol=1e-12)


def test_a_step_is_reached_at_its_place_but_for_rounding() -> None:
    ends = np.cumsum([0.1, 0.1, 0.1])  # the last at 0.30000000000000004
    assert steps_reached(ends, np.array([0.3, 0.2999])).tolist() == [3, 2]


def test_grouped_time_knows_the_ends_of_its_intervals_but_for_rounding() -> None:
    ends = np.array([30.0, 60.0, 90.0])
    asked = [90.0 * (1.0 + 1e-12), 30.0, 60.0 * (1.0 - 1e-12)]
    assert places_of_ends(ends, asked, link="cloglog").tolist() == [2, 0, 1]
    with pytest.raises(StudyError, match="ends of intervals alone"):
        places_of_ends(ends, [30.0, 45.0], link="cloglog")


def test_a_risk_beyond_all_others_is_certain_death_where_anything_can_happen() -> None:
    baseline = PiecewiseHazard(np.array([0.0, 1.0, 2.0]), np.array([0.0, 1e-30]))
    found = baseline.survival(np.array([0.0, 100.0, 1e5]), np.array([1.0, 2.0]))
    np.testing.assert_array_equal(found, [[1.0, 1.0], [1.0, 0.0], [1.0, 0.0]])
