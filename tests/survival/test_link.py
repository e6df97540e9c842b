from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

from fedcox.survival.link import LINKS, ComplementaryLogLog, Logit
from tests.problems import LINK_NAMES

THETA = np.linspace(-12.0, 3.0, 61)
STEP = 1e-5


@pytest.mark.parametrize("name", LINK_NAMES)
@pytest.mark.parametrize("part", ["at_risk", "event"])
def test_slope_and_curvature_agree_with_finite_differences(name: str, part: str) -> None:
    link = LINKS[name]

    def terms(theta: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        found = getattr(link, part)(np.exp(theta))
        return found.cost, found.slope, found.curvature

    cost_up, slope_up, _ = terms(THETA + STEP)
    cost_down, slope_down, _ = terms(THETA - STEP)
    _, slope, curvature = terms(THETA)
    scale = 1.0 + np.exp(THETA)
    np.testing.assert_allclose(
        (cost_up - cost_down) / (2 * STEP) / scale, slope / scale, atol=1e-9
    )
    np.testing.assert_allclose(
        (slope_up - slope_down) / (2 * STEP) / scale, curvature / scale, atol=1e-9
    )


@pytest.mark.parametrize("name", LINK_NAMES)
def test_cell_costs_are_minus_log_probabilities(name: str) -> None:
    link = LINKS[name]
    theta = THETA[THETA < 1.5]  # beyond, 1 − hazard has no digits left to compare with
    v = np.exp(theta)
    hazard = link.hazard(theta)
    np.testing.assert_allclose(link.at_risk(v).cost, -np.log1p(-hazard), rtol=1e-9)
    np.testing.assert_allclose(link.event(v).cost, -np.log(hazard), rtol=1e-9)


@pytest.mark.parametrize("name", LINK_NAMES)
def test_expected_information_is_the_squared_hazard_slope_over_its_variance(name: str) -> None:
    link = LINKS[name]
    theta = THETA[THETA < 1.5]  # beyond, 1 − hazard has no digits left to compare with
    slope = (link.hazard(theta + STEP) - link.hazard(theta - STEP)) / (2 * STEP)
    hazard = link.hazard(theta)
    expected = slope**2 / (hazard * (1.0 - hazard))
    np.testing.assert_allclose(link.information(np.exp(theta)), expected, rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize("name", LINK_NAMES)
def test_series_equals_the_function_inside_its_radius(name: str) -> None:
    link = LINKS[name]
    v = np.linspace(1e-6, min(link.series_radius, 5.0), 50)
    powers = v[:, None] ** np.arange(1, link.series.size + 1)
    np.testing.assert_allclose(powers @ link.series, link.at_risk(v).cost, rtol=1e-14)
    v = np.linspace(1e-6, link.information_radius, 50)
    powers = v[:, None] ** np.arange(1, link.information_series.size + 1)
    np.testing.assert_allclose(
        powers @ link.information_series, link.information(v), rtol=1e-13
    )


@pytest.mark.parametrize("name", LINK_NAMES)
def test_intercept_is_the_inverse_of_hazard(name: str) -> None:
    link = LINKS[name]
    hazard = np.array([1e-9, 0.01, 0.5, 0.99])
    np.testing.assert_allclose(link.hazard(link.intercept(hazard)), hazard, rtol=1e-12)


@pytest.mark.parametrize("name", LINK_NAMES)
def test_block_sum_equals_cell_by_cell(name: str) -> None:
    link = LINKS[name]
    v = np.exp(np.random.default_rng(0).normal(-2.0, 2.0, size=(37, 11)))
    cost, slope, curvature = link.at_risk_sum(v.copy())
    cells = link.at_risk(v)
    assert cost == pytest.approx(cells.cost.sum(), rel=1e-13)
    np.testing.assert_allclose(slope, cells.slope, rtol=1e-12)
    np.testing.assert_allclose(curvature, cells.curvature, rtol=1e-12)


def test_hazards_are_the_textbook_ones() -> None:
    np.testing.assert_allclose(Logit().hazard(THETA), expit(THETA))
    np.testing.assert_allclose(
        ComplementaryLogLog().hazard(THETA), 1.0 - np.exp(-np.exp(THETA)), atol=1e-15
    )


def test_each_ratio_goes_under_its_honest_name() -> None:
    assert ComplementaryLogLog().ratio_name == "hazard ratio"
    assert Logit().ratio_name == "hazard odds ratio"


def test_large_predictors_stay_finite() -> None:
    v = np.exp(np.array([50.0, 300.0]))
    for link in LINKS.values():
        with np.errstate(over="ignore"):  # as every kernel has it
            assert np.isfinite(link.information(v)).all()
        assert np.isfinite(link.event(v).slope).all()
