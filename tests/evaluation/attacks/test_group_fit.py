"""The attacker's model of a reply is the reply."""

from __future__ import annotations

import numpy as np
import pytest

from fedcox.engines.in_process import InProcess
from fedcox.evaluation.attacks.gradient_inversion import (
    GroupOutcomes,
    _Problem,
    fit_group,
    sums_of,
)
from fedcox.evaluation.attacks.observed_sums import ObservedSource
from fedcox.solvers.lbfgs import LBFGS
from fedcox.solvers.newton import Newton
from tests.evaluation.attacks.invented_studies import plan, recorded, sparse_tail
from tests.problems import LINK_NAMES

SOLVERS = {"newton": Newton(), "lbfgs": LBFGS(), "block": LBFGS(scaling="block")}


def example(
    link: str, solver: str, reading: str = "include"
) -> tuple[ObservedSource, np.ndarray, GroupOutcomes]:
    cohorts = sparse_tail(40, 3, seed=0)
    chosen = plan(cohorts, SOLVERS[solver], 12, link, reading)  # type: ignore[arg-type]
    seen, _, truth = recorded(chosen, cohorts, InProcess.from_cohorts(cohorts))
    return seen["center 0"], truth.covariates, GroupOutcomes(truth.intervals, truth.event)


@pytest.mark.parametrize("link", LINK_NAMES)
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("reading", ["include", "exclude"])
def test_the_sums_of_known_patients_are_the_replies(
    link: str, solver: str, reading: str
) -> None:
    source, covariates, outcomes = example(link, solver, reading)
    ours, sent = sums_of(source.setting.link, source.sums, outcomes, covariates), source.sums
    for name in ("slope", "beta_slope", "curvature", "cross"):
        np.testing.assert_allclose(
            getattr(ours, name), getattr(sent, name), rtol=1e-9, atol=1e-9, err_msg=name
        )


@pytest.mark.parametrize("link", LINK_NAMES)
@pytest.mark.parametrize("whole", [True, False])
def test_the_jacobian_is_that_of_the_residuals(link: str, whole: bool) -> None:
    source, covariates, outcomes = example(link, "newton")
    few = GroupOutcomes(outcomes.intervals[:3], outcomes.event[:3])
    problem = _Problem(source.setting.link, source.sums, few, np.arange(5), whole)
    x = covariates[:3].ravel() + 0.1
    steps = 1e-6 * np.eye(x.size)
    slopes = [(problem.residuals(x + h) - problem.residuals(x - h)) / 2e-6 for h in steps]
    np.testing.assert_allclose(problem.jacobian(x), np.array(slopes).T, rtol=1e-5, atol=1e-6)


def test_fewer_equations_than_unknowns_are_not_solved() -> None:
    source, _, outcomes = example("logit", "lbfgs")
    found = fit_group(
        source.setting.link,
        source.sums,
        outcomes,
        np.array([0]),
        whole=False,
        rng=np.random.default_rng(0),
    )
    assert found is None


def test_a_group_that_no_covariates_explain_is_not_claimed() -> None:
    source, _, outcomes = example("cloglog", "newton")
    one = GroupOutcomes(outcomes.intervals[:1], outcomes.event[:1])
    found = fit_group(
        source.setting.link,
        source.sums,
        one,
        np.array([0]),
        whole=False,
        rng=np.random.default_rng(0),
    )
    assert found is None
