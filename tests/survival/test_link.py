from __future__ import annotations

import numpy as np
import pytest
import statsmodels.api as sm
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

import fedcox.survival.cell_blocks as cell_blocks
import fedcox.survival.preparation as preparation
from fedcox.survival.cohort import FloatArray
from fedcox.survival.derivatives import Curvature, Derivatives, Detail
from fedcox.survival.link import LINKS, AbstractLink, ComplementaryLogLog, Logit
from fedcox.survival.person_periods import stack
from fedcox.survival.preparation import prepare
from fedcox.survival.scaling import Scaling
from fedcox.survival.time_grid import CensoredInterval
from fedcox.survival.weighted_events import WeightedEvents
from tests.problems import LINK_NAMES, READINGS, grids, simulated
from tests.stacked_glm import GLM_LINKS

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


@pytest.mark.parametrize("name", [name for name in LINK_NAMES if LINKS[name].series.size])
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


COHORT = simulated(300, 3)
WEIGHT = 17.5


@pytest.fixture(params={"cells": 10**9, "series": -1}.items(), ids=lambda item: item[0])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both kernels: cell by cell in blocks, and by prefix sums."""
    name, few = request.param
    monkeypatch.setattr(preparation, "FEW_INTERVALS", dict.fromkeys(LINK_NAMES, few))
    monkeypatch.setattr(cell_blocks, "_PATIENTS", 37)
    monkeypatch.setattr(cell_blocks, "_COVARIATES", 0)  # and slabs, the smallest there are
    return str(name)


def ask(
    grid_name: str,
    reading: CensoredInterval,
    link: AbstractLink,
    alpha: FloatArray,
    beta: FloatArray,
    detail: Detail,
) -> Derivatives:
    grid = grids(COHORT)[grid_name]
    active = np.ones(grid.intervals, dtype=np.bool_)
    patients = prepare(COHORT, grid, reading, active, Scaling.none(3), link)
    return patients.derivatives(link, alpha, beta, detail)


def full(curvature: Curvature | None) -> FloatArray:
    assert curvature is not None
    assert curvature.cross is not None
    return np.block(
        [[np.diag(curvature.alpha), curvature.cross], [curvature.cross.T, curvature.beta]]
    )


@pytest.mark.parametrize("detail", [Detail.HESSIAN, Detail.INFORMATION])
@pytest.mark.parametrize("name", LINK_NAMES)
@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("grid_name", ["intervals", "event times"])
def test_both_kernels_weight_the_rows_of_events(
    way: str, grid_name: str, reading: CensoredInterval, name: str, detail: Detail
) -> None:
    grid, link = grids(COHORT)[grid_name], LINKS[name]
    rng = np.random.default_rng(7)
    alpha, beta = rng.normal(-3.0, 1.0, grid.intervals), rng.normal(0.0, 0.5, 3)
    rows = stack(COHORT, grid, reading)
    design = rows.design(COHORT, grid.intervals)
    weight = rows.weight * np.where(rows.event, WEIGHT, 1.0)
    v = np.exp(design @ np.concatenate([alpha, beta]))
    at_risk, event = link.at_risk(v), link.event(v)
    slope = weight * np.where(rows.event, event.slope, at_risk.slope)
    curvature = weight * np.where(rows.event, event.curvature, at_risk.curvature)

    found = ask(grid_name, reading, WeightedEvents(link, WEIGHT), alpha, beta, detail)
    cost = weight * np.where(rows.event, event.cost, at_risk.cost)
    assert found.loss == pytest.approx(float(cost.sum()), rel=1e-12)
    gradient = np.concatenate([found.alpha, found.beta])
    np.testing.assert_allclose(gradient, design.T @ slope, rtol=1e-10, atol=1e-10)
    # A weighted loss has one curvature, whichever is asked for: the observed Hessian.
    np.testing.assert_allclose(
        full(found.curvature),
        design.T @ (curvature[:, None] * design),
        rtol=1e-8,
        atol=1e-8,
    )


@pytest.mark.parametrize("name", LINK_NAMES)
def test_slopes_agree_with_finite_differences(name: str) -> None:
    link, step = WeightedEvents(LINKS[name], WEIGHT), 1e-5
    theta = np.linspace(-8.0, 2.0, 21)
    up, down = link.event(np.exp(theta + step)), link.event(np.exp(theta - step))
    here = link.event(np.exp(theta))
    np.testing.assert_allclose((up.cost - down.cost) / (2 * step), here.slope, atol=1e-7)
    np.testing.assert_allclose((up.slope - down.slope) / (2 * step), here.curvature, atol=1e-7)


def minimised(link: AbstractLink) -> FloatArray:
    """The optimum by plain Newton steps on our derivatives."""
    intervals = grids(COHORT)["short horizon"].intervals
    point = np.zeros(intervals + 3)
    for _ in range(60):
        here = ask(
            "short horizon",
            "half",
            link,
            point[:intervals],
            point[intervals:],
            Detail.HESSIAN,
        )
        gradient = np.concatenate([here.alpha, here.beta])
        point = point - np.linalg.solve(full(here.curvature), gradient)
    return point


@pytest.mark.parametrize("name", GLM_LINKS)
def test_the_optimum_is_that_of_a_weighted_regression_on_the_stack(name: str) -> None:
    grid = grids(COHORT)["short horizon"]
    rows = stack(COHORT, grid, "half")
    reference = sm.GLM(
        rows.event.astype(np.float64),
        rows.design(COHORT, grid.intervals),
        family=sm.families.Binomial(GLM_LINKS[name]()),
        freq_weights=rows.weight * np.where(rows.event, WEIGHT, 1.0),
    ).fit(tol=1e-11, tol_criterion="params", maxiter=200)
    found = minimised(WeightedEvents(LINKS[name], WEIGHT))
    np.testing.assert_allclose(found, reference.params, atol=1e-8)


def test_the_optimum_is_scikit_learns_with_class_weights() -> None:
    grid = grids(COHORT)["short horizon"]
    rows = stack(COHORT, grid, "half")
    model = LogisticRegression(
        C=np.inf,
        fit_intercept=False,
        class_weight={False: 1.0, True: WEIGHT},
        tol=1e-10,
        max_iter=5000,
        solver="newton-cholesky",
    )
    model.fit(rows.design(COHORT, grid.intervals), rows.event, sample_weight=rows.weight)
    found = minimised(WeightedEvents(LINKS["logit"], WEIGHT))
    np.testing.assert_allclose(found, model.coef_[0], atol=1e-6)


@pytest.mark.parametrize("name", LINK_NAMES)
def test_start_and_null_loss_are_those_of_the_best_weighted_intercept(name: str) -> None:
    link = WeightedEvents(LINKS[name], WEIGHT)
    at_risk, events = np.array([50.0, 31.5]), np.array([4.0, 1.0])
    theta = link.intercept(events / at_risk)

    def loss(theta: FloatArray) -> float:
        v = np.exp(theta)
        return float(((at_risk - events) * link.cost(v) + events * link.event(v).cost).sum())

    assert link.null_loss(at_risk, events) == pytest.approx(loss(theta), rel=1e-12)
    for shift in (-1e-3, 1e-3):
        assert loss(theta + shift) > loss(theta)


def test_a_weight_of_one_is_the_link_itself() -> None:
    v = np.exp(np.linspace(-5.0, 2.0, 9))
    for name in LINK_NAMES:
        plain, link = LINKS[name], WeightedEvents(LINKS[name], 1.0)
        assert link.name == plain.name
        for ours, theirs in zip(link.event(v), plain.event(v), strict=True):
            np.testing.assert_array_equal(ours, theirs)
        hazard = np.array([0.2])
        np.testing.assert_allclose(link.intercept(hazard), plain.intercept(hazard))
