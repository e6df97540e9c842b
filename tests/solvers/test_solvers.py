"""Every solver on every problem: the same optimum, in few rounds."""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from lifelines.datasets import load_lung

from fedcox.engines.in_process import InProcess
from fedcox.solvers.adam import Adam
from fedcox.solvers.lbfgs import LBFGS
from fedcox.solvers.newton import Newton
from fedcox.solvers.solver import AbstractSolver, Step
from fedcox.study.fit import Estimate, estimate
from fedcox.study.plan import Plan
from fedcox.survival.cohort import Cohort
from fedcox.survival.link import LINKS
from tests.problems import simulated, untied

SOLVERS: dict[str, tuple[AbstractSolver, float]] = {
    "newton": (Newton(), 1e-8),
    "lbfgs by the diagonal": (LBFGS(scaling="diagonal"), 1e-5),
    "lbfgs by the block": (LBFGS(scaling="block"), 1e-5),
    "adam": (Adam(learning_rate=0.05, steps=600), 1e-2),
}


def correlated() -> Cohort:
    """Six columns, each nearly the one before."""
    base = simulated(300, 6, seed=4)
    mixed = np.cumsum(base.covariates, axis=1)
    return Cohort(mixed, base.time, base.event)


def lung() -> Cohort:
    frame = load_lung().dropna()
    columns = ["age", "sex", "ph.ecog", "ph.karno", "pat.karno", "meal.cal", "wt.loss"]
    return Cohort(
        frame[columns].to_numpy(np.float64), frame["time"].to_numpy(), frame["status"] == 1
    )


#: Cohort, width, ridge.
PROBLEMS: dict[str, tuple[Cohort, float | None, float]] = {
    "lung": (lung(), 30.0, 0.0),
    "simulated": (simulated(300, 3, seed=2), 20.0, 0.0),
    "every event time": (untied(simulated(200, 3, seed=2)), None, 0.0),
    "correlated columns": (correlated(), 25.0, 0.0),
    "ridge": (correlated(), 25.0, 5.0),
    "one interval": (simulated(150, 2, seed=5), 1000.0, 0.0),
    "strong effects": (
        Cohort(
            3 * simulated(400, 2, seed=6).covariates,
            simulated(400, 2, seed=6).time,
            simulated(400, 2, seed=6).event,
        ),
        20.0,
        0.0,
    ),
    "columns of other sizes": (
        Cohort(
            simulated(200, 3, seed=7).covariates * [1e-6, 1.0, 1e6] + [0, 50, 0],
            simulated(200, 3, seed=7).time,
            simulated(200, 3, seed=7).event,
        ),
        20.0,
        0.0,
    ),
}


@cache
def solved(problem: str, solver: str, link: str) -> Estimate:
    cohort, width, ridge = PROBLEMS[problem]
    names = tuple(f"x{j}" for j in range(cohort.columns))
    plan = Plan(names, LINKS[link], "include", width, None, ridge, SOLVERS[solver][0])
    return estimate(plan, InProcess.from_cohorts({"all": cohort}))


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize(
    ("solver", "problem"),
    [
        (solver, problem)
        for solver in SOLVERS
        for problem in PROBLEMS
        # Correlated columns would take Adam thousands of rounds.
        if solver != "newton" and (solver, problem) != ("adam", "correlated columns")
    ],
)
def test_every_solver_reaches_newtons_optimum(solver: str, problem: str, link: str) -> None:
    found, expected = solved(problem, solver, link), solved(problem, "newton", link)
    tolerance = SOLVERS[solver][1]
    assert found.solution.converged
    off = found.inference.coefficients - expected.inference.coefficients
    assert np.abs(off / expected.inference.standard_errors).max() < tolerance
    np.testing.assert_allclose(
        found.inference.standard_errors, expected.inference.standard_errors, rtol=10 * tolerance
    )
    assert found.solution.loss == pytest.approx(expected.solution.loss, abs=tolerance)
    assert not found.solution.separated.any()


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("problem", PROBLEMS)
def test_newtons_optimum_has_no_slope(problem: str, link: str) -> None:
    found = solved(problem, "newton", link)
    assert found.solution.converged
    steps = found.solution.steps
    assert steps[-1].decrement is not None
    assert steps[-1].decrement < 1e-10
    assert found.solution.loss <= min(step.loss for step in steps) + 1e-9


@pytest.mark.parametrize("link", LINKS)
def test_newton_needs_at_most_seven_rounds_on_lung(link: str) -> None:
    found = solved("lung", "newton", link)
    assert found.rounds <= 7
    # Near the optimum gradients do, with the last Hessian.
    assert sum(row.query == "hessian" for row in found.ledger) <= 3


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("scaling", ["diagonal", "block"])
def test_lbfgs_needs_at_most_twenty_rounds_on_lung(link: str, scaling: str) -> None:
    assert solved("lung", f"lbfgs by the {scaling}", link).rounds <= 20


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("problem", PROBLEMS)
def test_newton_needs_few_rounds_on_every_problem(problem: str, link: str) -> None:
    assert solved(problem, "newton", link).rounds <= 11


@pytest.mark.parametrize("link", LINKS)
def test_one_block_sent_once_saves_rounds_where_columns_are_correlated(link: str) -> None:
    diagonal = solved("correlated columns", "lbfgs by the diagonal", link).rounds
    assert solved("correlated columns", "lbfgs by the block", link).rounds < diagonal


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("solver", [name for name in SOLVERS if name != "adam"])
def test_the_loss_falls_with_every_step(solver: str, problem: str, link: str) -> None:
    losses = [step.loss for step in solved(problem, solver, link).solution.steps]
    for earlier, later in pairwise(losses):
        assert later <= earlier + 1e-9 * abs(earlier)


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_watcher_sees_every_step(solver: str) -> None:
    cohort, width, ridge = PROBLEMS["simulated"]
    plan = Plan(
        ("a", "b", "c"), LINKS["logit"], "include", width, None, ridge, SOLVERS[solver][0]
    )
    seen: list[Step] = []
    found = estimate(plan, InProcess.from_cohorts({"all": cohort}), seen.append)
    assert tuple(seen) == found.solution.steps


@pytest.mark.parametrize("solver", [Newton(max_rounds=1), LBFGS(max_rounds=1), Adam(steps=1)])
def test_a_solver_cut_short_gives_information_all_the_same(solver: AbstractSolver) -> None:
    cohort, width, _ = PROBLEMS["simulated"]
    plan = Plan(("a", "b", "c"), LINKS["logit"], "include", width, None, 0.0, solver)
    found = estimate(plan, InProcess.from_cohorts({"all": cohort}))
    assert not found.solution.converged
    assert np.isfinite(found.inference.standard_errors).all()
    assert np.isfinite(found.log_likelihood)


@pytest.mark.parametrize("link", LINKS)
def test_standard_errors_have_their_digits_where_the_likelihood_is_skewed(link: str) -> None:
    """One event in a group of fifty: the information changes fast near the optimum."""
    for seed in range(12):
        cohort = simulated(300, 2, seed=seed)
        group = np.zeros(300)
        group[np.flatnonzero(~cohort.event)[:50]] = 1.0
        group[np.flatnonzero(cohort.event)[seed]] = 1.0
        skewed = Cohort(np.column_stack([cohort.covariates, group]), cohort.time, cohort.event)
        found, expected = (
            estimate(
                Plan(("a", "b", "c"), LINKS[link], "include", 20.0, None, 0.0, solver),
                InProcess.from_cohorts({"all": skewed}),
            ).inference
            for solver in (Newton(), Newton(tolerance=1e-22))
        )
        off = (found.coefficients - expected.coefficients) / expected.standard_errors
        assert np.abs(off).max() < 1e-7
        np.testing.assert_allclose(found.standard_errors, expected.standard_errors, rtol=1e-6)


def test_batches_follow_the_seed_and_nothing_else() -> None:
    cohort, width, _ = PROBLEMS["simulated"]
    found = []
    for seed in (1, 1, 2):
        solver = Adam(learning_rate=0.05, steps=30, batch_size=20, seed=seed)
        plan = Plan(("a", "b", "c"), LINKS["logit"], "include", width, None, 0.0, solver)
        found.append(estimate(plan, InProcess.from_cohorts({"all": cohort})).solution)
    assert found[0].steps == found[1].steps
    assert found[0].steps != found[2].steps
    np.testing.assert_array_equal(found[0].beta, found[1].beta)
