"""Gradients first: the same optimum with few Hessians, where rounds cost nothing."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import fedcox.solvers.newton as newton
from fedcox.engines.in_process import InProcess
from fedcox.solvers.newton import Newton
from fedcox.solvers.profile import Profile
from fedcox.solvers.solver import Point
from fedcox.study.fit import Estimate, estimate, start
from fedcox.study.plan import Plan
from fedcox.survival.cohort import Cohort
from fedcox.survival.derivatives import Detail
from fedcox.survival.link import LINKS
from tests.problems import LINK_NAMES, simulated, split
from tests.solvers.test_solvers import PROBLEMS

NEVER = 10**15


@cache
def many(patients: int = 4000, columns: int = 6) -> Cohort:
    """Normal covariates with effects, as many patients as a registry has."""
    rng = np.random.default_rng(11)
    covariates = rng.normal(size=(patients, columns)) @ rng.normal(size=(columns, columns))
    risk = covariates @ rng.normal(size=columns)
    risk *= 0.5 / risk.std()
    lived, followed = rng.exponential(np.exp(-risk)), rng.uniform(0.0, 2.0, patients)
    return Cohort(covariates, np.minimum(lived, followed), lived <= followed)


def fit(
    cohort: Cohort | dict[str, Cohort],
    *,
    link: str = "log",
    pieces: int | None = None,
    ridge: float = 0.0,
    apart: bool = False,
    solver: Newton | None = None,
) -> Estimate:
    centers = cohort if isinstance(cohort, dict) else {"all": cohort}
    columns = next(iter(centers.values())).columns
    names = tuple(f"x{j}" for j in range(columns))
    width = None if link == "log" else 0.1
    plan = Plan(
        names, LINKS[link], "include", width, None, ridge, solver or Newton(), pieces=pieces
    )
    return estimate(plan, InProcess.from_cohorts(centers, apart=apart))


def asked(found: Estimate) -> list[str]:
    """What the solver asked for, round by round."""
    kinds = {detail.value for detail in Detail}
    center = found.ledger[0].center
    return [row.query for row in found.ledger if row.query in kinds and row.center == center]


def check_alike(found: Estimate, expected: Estimate) -> None:
    errors = expected.inference.standard_errors
    off = found.inference.coefficients - expected.inference.coefficients
    assert np.abs(off / errors).max() < 1e-10
    np.testing.assert_allclose(found.inference.standard_errors, errors, rtol=1e-8)
    np.testing.assert_allclose(found.alpha, expected.alpha, atol=1e-9)
    assert found.solution.loss == pytest.approx(expected.solution.loss, rel=1e-12)
    assert found.solution.converged
    assert expected.solution.converged


@pytest.mark.parametrize("pieces", [8, None])
@pytest.mark.parametrize("problem", PROBLEMS)
def test_gradients_first_end_where_newton_ends(
    problem: str, pieces: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    cohort, _, ridge = PROBLEMS[problem]
    monkeypatch.setattr(newton, "_MANY", NEVER)
    expected = fit(cohort, pieces=pieces, ridge=ridge)
    monkeypatch.setattr(newton, "_MANY", 0)
    found = fit(cohort, pieces=pieces, ridge=ridge)
    assert asked(expected)[0] == "hessian"
    assert asked(found)[0] == "gradient"
    check_alike(found, expected)


@pytest.mark.parametrize("pieces", [24, None])
def test_many_patients_are_asked_for_one_hessian(
    pieces: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(newton, "_MANY", 0)
    cohort = many(40_000, 20)
    found = fit(cohort, pieces=pieces)
    *before, last = asked(found)
    assert last == "information"
    assert set(before) == {"gradient"}
    assert len(before) <= 9
    monkeypatch.setattr(newton, "_MANY", NEVER)
    check_alike(found, fit(cohort, pieces=pieces))


def test_few_patients_are_asked_for_hessians_in_few_rounds() -> None:
    found = fit(many(), pieces=24)  # 24,000 numbers: nothing beside a round
    assert asked(found)[0] == "hessian"
    assert len(asked(found)) <= 6


def test_between_hospitals_no_round_is_spent_on_gradients(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(newton, "_MANY", 0)
    parts = split(many(), np.arange(4000) % 3, 3)
    together, apart = fit(parts, pieces=24), fit(parts, pieces=24, apart=True)
    assert asked(together)[0] == "gradient"
    assert asked(apart)[0] == "hessian"
    assert len(asked(apart)) <= 6
    errors = apart.inference.standard_errors
    if np.array_equal(
        together.agreement.setting.grid.edges, apart.agreement.setting.grid.edges
    ):
        off = together.inference.coefficients - apart.inference.coefficients
        assert np.abs(off / errors).max() < 1e-9


@pytest.mark.parametrize("link", LINK_NAMES)
def test_links_without_a_baseline_in_closed_form_begin_with_a_hessian(
    link: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(newton, "_MANY", 0)
    assert asked(fit(many(), link=link))[0] == "hessian"


def test_a_coefficient_without_an_optimum_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(newton, "_MANY", 0)
    base = many()
    alone = np.where(base.event, 0.0, np.arange(4000) % 5 == 0)  # never together with an event
    found = fit(Cohort(np.column_stack([base.covariates, alone]), base.time, base.event))
    assert found.solution.separated.tolist() == [False] * 6 + [True]


def test_skewed_covariates_are_left_to_newton(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    covariates = rng.lognormal(size=(3000, 4))
    risk = covariates @ np.array([0.4, -0.3, 0.2, 0.0])
    lived = rng.exponential(np.exp(risk.mean() - risk))
    cohort = Cohort(covariates, np.minimum(lived, 2.0), lived <= 2.0)
    monkeypatch.setattr(newton, "_MANY", 0)
    found = fit(cohort, pieces=12)
    assert asked(found).count("hessian") + asked(found).count("information") > 1
    monkeypatch.setattr(newton, "_MANY", NEVER)
    check_alike(found, fit(cohort, pieces=12))


@pytest.mark.parametrize("rounds", [1, 2, 3, 5])
def test_a_search_that_may_not_go_on_says_so(
    rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(newton, "_MANY", 0)
    found = fit(many(), pieces=12, solver=Newton(max_rounds=rounds))
    assert not found.solution.converged
    assert np.isfinite(found.inference.standard_errors).all()


def test_the_best_baseline_for_given_coefficients_is_known_from_a_gradient() -> None:
    cohort = simulated(300, 3)
    plan = Plan(("a", "b", "c"), LINKS["log"], "include", None, None, 0.0, Newton(), pieces=9)
    federation = InProcess.from_cohorts({"all": cohort})
    found = estimate(plan, federation)
    problem = start(plan, found.agreement)
    profile = Profile.of(problem)
    assert profile is not None
    # At the coefficients of the optimum, from the baseline without effects.
    point = Point(problem.alpha, found.solution.beta)
    reply = problem.at(federation, point, Detail.GRADIENT)
    assert profile.look(point, reply)
    np.testing.assert_allclose(profile.last.alpha, found.solution.alpha, atol=1e-9)
    assert profile.loss == pytest.approx(found.solution.loss, rel=1e-12)


def test_a_rise_of_the_loss_is_not_taken_in() -> None:
    cohort = simulated(300, 3)
    plan = Plan(("a", "b", "c"), LINKS["log"], "include", None, None, 0.0, Newton(), pieces=9)
    federation = InProcess.from_cohorts({"all": cohort})
    problem = start(plan, estimate(plan, federation).agreement)
    profile = Profile.of(problem)
    assert profile is not None

    def look(beta: float) -> bool:
        point = Point(problem.alpha, np.full(3, beta))
        reply = problem.at(federation, point, Detail.GRADIENT)
        return profile.look(point, reply)

    assert look(0.0)
    assert not look(5.0)  # far too much
    assert not look(1e4)  # beyond numbers
    np.testing.assert_array_equal(profile.last.beta, np.zeros(3))
