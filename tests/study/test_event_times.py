"""Every distinct event time as an instant: the sum over all cells, and Cox's model as limit."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
from statsmodels.duration.hazard_regression import PHReg

import fedcox.survival.preparation as preparation
from fedcox.engines.in_process import InProcess
from fedcox.solvers.lbfgs import LBFGS
from fedcox.solvers.newton import Newton
from fedcox.solvers.solver import AbstractSolver
from fedcox.study.fit import Estimate, estimate
from fedcox.study.plan import Plan
from fedcox.survival.cohort import Cohort, FloatArray
from fedcox.survival.link import LINKS
from fedcox.survival.time_grid import CensoredInterval
from tests.problems import LINK_NAMES, READINGS, simulated, untied
from tests.stacked_glm import GLM_LINKS, Reference, binomial_glm, by_event_times, by_width

#: The kernel made to visit every cell, or to use prefix sums and power series wherever it can.
WAYS = {"cells": 10**9, "series": -1}


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    few = dict.fromkeys(LINK_NAMES, WAYS[request.param])
    monkeypatch.setattr(preparation, "FEW_INTERVALS", few)
    return str(request.param)


def fit(
    cohort: Cohort,
    link: str,
    reading: CensoredInterval = "include",
    solver: AbstractSolver | None = None,
) -> Estimate:
    columns = tuple(f"x{j}" for j in range(cohort.columns))
    plan = Plan(columns, LINKS[link], reading, None, None, 0.0, solver or Newton())
    return estimate(plan, InProcess.from_cohorts({"all": cohort}))


def few_patients(ties: bool) -> Cohort:
    cohort = simulated(90, 3, seed=2, unit=25.0)
    return cohort if ties else untied(cohort)


@cache
def reference(link: str, reading: str, ties: bool) -> Reference:
    cohort = few_patients(ties)
    rows = by_event_times(cohort.time.tolist(), cohort.event.tolist(), reading)
    return binomial_glm(rows, cohort.covariates, link)


@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("link", GLM_LINKS)
@pytest.mark.parametrize("ties", [True, False])
def test_the_fit_is_the_glm_on_the_stack_of_all_event_times(
    way: str, link: str, reading: CensoredInterval, ties: bool
) -> None:
    ours, theirs = fit(few_patients(ties), link, reading), reference(link, reading, ties)
    np.testing.assert_array_equal(
        np.flatnonzero(ours.agreement.setting.active), theirs.informative
    )
    np.testing.assert_allclose(ours.inference.coefficients, theirs.coef, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(ours.inference.standard_errors, theirs.se, rtol=1e-8)
    np.testing.assert_allclose(ours.alpha, theirs.alpha, rtol=1e-8, atol=1e-8)
    assert ours.log_likelihood == pytest.approx(theirs.log_likelihood, rel=1e-11)


@dataclass(frozen=True)
class Direct:
    """Sums over every pair of patient and instant, in one large array."""

    loss: float
    gradient: FloatArray
    standard_errors: FloatArray


def direct(cohort: Cohort, ours: Estimate, link: str) -> Direct:
    """Loss, gradient and standard errors at a fit's parameters, straight from the formulas."""
    instants = ours.agreement.setting.grid.edges[ours.agreement.setting.active]
    at_risk = cohort.time[:, None] >= instants
    event = cohort.event[:, None] & (cohort.time[:, None] == instants)
    theta = ours.alpha + (cohort.covariates @ ours.inference.coefficients)[:, None]
    v = np.exp(theta)
    if link == "logit":
        hazard = 1 / (1 + 1 / v)
        cost = np.log1p(v) - event * theta
        slope, weight = hazard - event, hazard * (1 - hazard)
    else:
        hazard = -np.expm1(-v)
        cost = np.where(event, -np.log(hazard), v)
        slope = np.where(event, v - v / hazard, v)
        weight = v**2 * np.exp(-v) / hazard
    slope, weight = slope * at_risk, weight * at_risk
    x = cohort.covariates
    cross = weight.T @ x
    information = x.T @ (weight.sum(axis=1)[:, None] * x)
    information -= cross.T @ (cross / weight.sum(axis=0)[:, None])
    gradient = np.concatenate([slope.sum(axis=0), slope.sum(axis=1) @ x])
    return Direct(
        float((cost * at_risk).sum()), gradient, np.sqrt(np.diag(np.linalg.inv(information)))
    )


@pytest.mark.parametrize("link", GLM_LINKS)
def test_the_series_equals_the_direct_sum_over_a_million_cells(
    link: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preparation, "FEW_INTERVALS", dict.fromkeys(LINK_NAMES, -1))
    cohort = untied(simulated(2000, 3, seed=6))
    ours = fit(cohort, link)
    expected = direct(cohort, ours, link)
    assert ours.agreement.setting.intervals > 1000
    assert -ours.log_likelihood == pytest.approx(expected.loss, rel=1e-11)
    # At the optimum the direct gradient vanishes, beside the events it balances.
    assert np.abs(expected.gradient[:-3]).max() < 1e-8
    assert np.abs(expected.gradient[-3:]).max() < 1e-8 * cohort.event.sum()
    np.testing.assert_allclose(
        ours.inference.standard_errors, expected.standard_errors, rtol=1e-8
    )


@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("link", GLM_LINKS)
def test_both_ways_through_the_kernel_give_one_fit(
    link: str, reading: CensoredInterval, monkeypatch: pytest.MonkeyPatch
) -> None:
    cohort = untied(simulated(900, 4, seed=8))
    # Someone far outside, for whom a short power series would be wrong.
    covariates = cohort.covariates.copy()
    covariates[5] = 6.0
    cohort = Cohort(covariates, cohort.time, cohort.event)
    found = {}
    for name, few in WAYS.items():
        monkeypatch.setattr(preparation, "FEW_INTERVALS", dict.fromkeys(LINK_NAMES, few))
        found[name] = fit(cohort, link, reading)
    cells, series = found["cells"].inference, found["series"].inference
    np.testing.assert_allclose(series.coefficients, cells.coefficients, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(series.standard_errors, cells.standard_errors, rtol=1e-9)
    np.testing.assert_allclose(found["series"].alpha, found["cells"].alpha, rtol=1e-8)


def two_groups() -> Cohort:
    """Hazards of 0.3 and 0.9 an interval: each group as a whole on its own side of one half."""
    rng = np.random.default_rng(17)
    group = np.where(np.arange(400) % 2, 1.0, -1.0)
    survived, censored = rng.exponential(np.exp(-group)), rng.uniform(0.2, 4.0, 400)
    time = np.ceil(100 * np.minimum(survived, censored))
    return Cohort(np.column_stack([group, rng.normal(size=400)]), time, survived <= censored)


@pytest.mark.parametrize(
    ("cohort", "width"), [(simulated(250, 2, seed=13), 40.0), (two_groups(), 100.0)]
)
@pytest.mark.parametrize("link", GLM_LINKS)
def test_wide_intervals_with_hazards_up_to_one_are_summed_right_either_way(
    way: str, link: str, cohort: Cohort, width: float
) -> None:
    plan = Plan(("a", "b"), LINKS[link], "include", width, None, 0.0, Newton())
    ours = estimate(plan, InProcess.from_cohorts({"all": cohort}))
    rows = by_width(cohort.time.tolist(), cohort.event.tolist(), width, "include")
    theirs = binomial_glm(rows, cohort.covariates, link)
    risk = cohort.covariates @ theirs.coef
    assert np.exp(theirs.alpha.max() + risk.max()) > 2  # far beyond a short power series
    np.testing.assert_allclose(ours.inference.coefficients, theirs.coef, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(ours.inference.standard_errors, theirs.se, rtol=1e-7)


@pytest.mark.parametrize("scaling", ["diagonal", "block"])
@pytest.mark.parametrize("link", GLM_LINKS)
def test_lbfgs_reaches_the_same_fit_on_every_event_time(link: str, scaling: str) -> None:
    cohort = untied(simulated(600, 3, seed=9))
    solver = LBFGS(scaling="diagonal" if scaling == "diagonal" else "block")
    found, expected = fit(cohort, link, solver=solver), fit(cohort, link)
    off = found.inference.coefficients - expected.inference.coefficients
    assert np.abs(off / expected.inference.standard_errors).max() < 1e-6
    np.testing.assert_allclose(
        found.inference.standard_errors, expected.inference.standard_errors, rtol=1e-6
    )


@pytest.mark.parametrize("link", GLM_LINKS)
def test_readings_agree_where_nobody_is_censored_at_an_event_time(link: str) -> None:
    cohort = untied(simulated(200, 2, seed=3))
    include, exclude, half = (fit(cohort, link, reading).inference for reading in READINGS)
    for other in (exclude, half):
        np.testing.assert_array_equal(other.coefficients, include.coefficients)
        np.testing.assert_array_equal(other.standard_errors, include.standard_errors)


# Cox's model

SIZES = (500, 2000, 5000)


@cache
def distance_to_breslow(patients: int, link: str, ties: bool) -> tuple[float, float]:
    """Largest difference of coefficients, in standard errors, and of those, relatively."""
    cohort = simulated(patients, 3, seed=4, unit=patients / 2)
    if not ties:
        cohort = untied(cohort)
    cox = PHReg(
        cohort.time, cohort.covariates, status=cohort.event.astype(int), ties="breslow"
    ).fit()
    ours = fit(cohort, link).inference
    return (
        float(np.abs((ours.coefficients - cox.params) / cox.bse).max()),
        float(np.abs(ours.standard_errors / cox.bse - 1).max()),
    )


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("link", GLM_LINKS)
def test_more_and_more_distinct_times_approach_breslows_cox_model(
    link: str, ties: bool
) -> None:
    few, more, many = (distance_to_breslow(patients, link, ties) for patients in SIZES)
    assert many[0] < 0.7 * more[0] < 0.7**2 * few[0]
    assert many[1] < more[1] < few[1]


@pytest.mark.parametrize(
    ("link", "patients", "apart", "errors_apart"),
    [
        ("cloglog", 500, 0.10, 2e-3),
        ("cloglog", 2000, 0.05, 1e-3),
        ("cloglog", 5000, 0.025, 5e-4),
        ("logit", 500, 0.15, 1e-2),
        ("logit", 2000, 0.10, 5e-3),
        ("logit", 5000, 0.05, 2e-3),
    ],
)
def test_breslows_coefficients_are_a_small_part_of_a_standard_error_away(
    link: str, patients: int, apart: float, errors_apart: float
) -> None:
    coefficients, standard_errors = distance_to_breslow(patients, link, False)
    assert coefficients < apart
    assert standard_errors < errors_apart
