from __future__ import annotations

from typing import Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedcox.engines.in_process import InProcess
from fedcox.federation.queries.derivatives import DerivativesAt
from fedcox.federation.queries.local_steps import LocalLooks, LocalSteps, LocalTraining
from fedcox.solvers.federated_averaging import FederatedAveraging
from fedcox.solvers.newton import Newton
from fedcox.solvers.solver import Problem, Step, full_curvature
from fedcox.solvers.training import decayed
from fedcox.study.agreement import Agreement, agree
from fedcox.study.fit import start
from fedcox.study.plan import Plan
from fedcox.survival.cohort import Cohort, FloatArray, IntArray
from fedcox.survival.derivatives import Detail
from fedcox.survival.descent import DescentName
from fedcox.survival.link import LINKS
from tests.problems import simulated, split

PATIENTS = 120
COHORT = simulated(PATIENTS, 3, seed=21)
RIDGE = 1.5


def prepared(
    assignment: IntArray, centers: int, link: str = "logit", ridge: float = RIDGE
) -> tuple[InProcess, Agreement, Problem]:
    federation = InProcess.from_cohorts(split(COHORT, assignment, centers))
    plan = Plan(("a", "b", "c"), LINKS[link], "include", 20.0, None, ridge, Newton())
    agreement = agree(plan, federation)
    return federation, agreement, start(plan, agreement)


def training_of(
    agreement: Agreement,
    problem: Problem,
    descent: DescentName,
    steps: int,
    cells: int | None = None,
) -> LocalTraining:
    setting = agreement.setting
    scale = np.ones(setting.intervals + setting.columns)
    ridge = problem.ridge / PATIENTS
    return LocalTraining(setting, descent, LocalLooks(steps, cells), ridge, scale)


def gradient_descent(link: str, rate: float, steps: int, *, scaled: bool) -> FloatArray:
    """Gradient descent on the pooled mean loss, written out."""
    federation, agreement, problem = prepared(np.zeros(PATIENTS, dtype=np.int64), 1, link)
    alpha, beta = problem.alpha, problem.beta
    of_alpha, of_beta = np.ones_like(alpha), np.ones_like(beta)
    if scaled:
        curvature = full_curvature(problem.at(federation, problem.start, Detail.HESSIAN))
        of_alpha, of_beta = curvature.alpha / PATIENTS, np.diag(curvature.beta) / PATIENTS
    for number in range(1, steps + 1):
        here = federation.ask(DerivativesAt(agreement.setting, alpha, beta, Detail.GRADIENT))
        step = decayed(rate, number, steps)
        alpha = alpha - step * here.alpha / PATIENTS / of_alpha
        beta = beta - step * (here.beta + problem.ridge * beta) / PATIENTS / of_beta
    return np.concatenate([alpha, beta])


@settings(max_examples=25)
@given(
    seed=st.integers(0, 2**32),
    centers=st.integers(1, 100),  # from 65 on the engine joins centers where it may
    evenness=st.sampled_from([0.05, 1.0, 50.0]),
    link=st.sampled_from(sorted(LINKS)),
    descent=st.sampled_from(["sgd", "scaled"]),
)
def test_one_step_a_round_is_pooled_gradient_descent(
    seed: int, centers: int, evenness: float, link: str, descent: Literal["sgd", "scaled"]
) -> None:
    rng = np.random.default_rng(seed)
    assignment = rng.choice(centers, PATIENTS, p=rng.dirichlet(np.full(centers, evenness)))
    federation, _, problem = prepared(assignment, centers, link)
    solver = FederatedAveraging(learning_rate=0.7, rounds=30, local_steps=1, descent=descent)
    found = solver.train(federation, problem)
    expected = gradient_descent(link, 0.7, 30, scaled=descent == "scaled")
    np.testing.assert_allclose(np.concatenate(found), expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("link", ["log", "logit"])
def test_alike_centers_end_near_the_optimum_and_unlike_ones_do_not(link: str) -> None:
    solver = FederatedAveraging(local_steps=20)
    off = {}
    by_time = (3 * np.argsort(np.argsort(COHORT.time)) // PATIENTS).astype(np.int64)
    for name, assignment in (
        ("one", np.zeros(PATIENTS, dtype=np.int64)),
        ("alike", np.arange(PATIENTS) % 3),
        ("unlike", by_time),
    ):
        federation, _, problem = prepared(assignment, 3, link)
        optimum = Newton().minimise(federation, problem)
        found = solver.minimise(federation, problem)
        off[name] = float(np.abs(found.beta - optimum.beta).max())
        assert np.isfinite(found.loss)
        assert found.loss >= optimum.loss - 1e-9
        assert found.converged == (name == "one")
    assert off["one"] < 1e-3
    assert off["one"] < off["alike"] < 0.15
    assert off["unlike"] > 2 * off["alike"]


def test_a_reply_is_weighted_by_patients_and_tells_the_loss_at_the_start() -> None:
    federation, agreement, problem = prepared(np.arange(PATIENTS) % 4, 4)
    training = training_of(agreement, problem, "adam", steps=3)
    question = LocalSteps(training, problem.alpha, problem.beta, 0.01, 1)
    mark = federation.ledger.mark()
    (replies,) = federation.ask_together([], each=[question])
    together = federation.ask(question)
    assert together.patients == PATIENTS
    np.testing.assert_allclose(
        together.beta, sum(reply.beta for reply in replies.values()), rtol=1e-12
    )
    summed = federation.ask(
        DerivativesAt(agreement.setting, problem.alpha, problem.beta, Detail.GRADIENT)
    )
    assert together.loss == pytest.approx(summed.loss, rel=1e-12)
    for center in federation.centers:
        own = replies[center.name]
        assert own.patients == center.cohort.patients
        # Three steps of Adam at 0.01 lead at most three hundredths away.
        assert np.abs(own.beta / own.patients - problem.beta).max() <= 0.03 + 1e-12
    rows = federation.ledger.since(mark)
    parameters = agreement.setting.intervals + 3
    assert {row.numbers_up for row in rows if row.query == "local steps"} == {2 + parameters}


def test_a_center_without_patients_does_not_pull_at_the_mean() -> None:
    assignment = np.arange(PATIENTS) % 3
    solver = FederatedAveraging(rounds=5, local_steps=2)
    results = [
        np.concatenate(solver.train(*prepared(assignment, centers)[::2]))
        for centers in (3, 7)  # the last four are empty
    ]
    np.testing.assert_allclose(results[0], results[1], rtol=1e-12)


def test_local_cells_follow_the_seed_and_differ_between_centers() -> None:
    federation, agreement, problem = prepared(np.arange(PATIENTS) % 2, 2)
    twins = InProcess.from_cohorts({"left": COHORT, "right": COHORT})  # renumbered through
    found = []
    for seed in (1, 1, 2):
        solver = FederatedAveraging(rounds=4, local_steps=3, cells=25, seed=seed)
        found.append(np.concatenate(solver.train(federation, problem)))
    np.testing.assert_array_equal(found[0], found[1])
    assert not np.array_equal(found[0], found[2])
    training = training_of(agreement, problem, "sgd", steps=1, cells=25)
    question = LocalSteps(training, problem.alpha, problem.beta, 0.1, 1)
    (replies,) = twins.ask_together([], each=[question])
    assert not np.allclose(replies["left"].beta, replies["right"].beta)


@pytest.mark.parametrize("link", ["log", "logit"])
def test_steps_on_local_cells_are_steps_on_all_patients_in_the_mean(link: str) -> None:
    federation, agreement, problem = prepared(np.arange(PATIENTS) % 2, 2, link)
    cohort = federation.centers[0].cohort

    def moved(training: LocalTraining, number: int) -> FloatArray:
        end = LocalSteps(training, problem.alpha, problem.beta, 1.0, number).answer(cohort)
        return np.concatenate([end.alpha, end.beta]) / end.patients

    expected = moved(training_of(agreement, problem, "sgd", steps=1), 1)
    sampled = training_of(agreement, problem, "sgd", steps=1, cells=200)
    found = np.array([moved(sampled, number) for number in range(800)])
    error = found.std(axis=0) / np.sqrt(len(found))
    assert np.abs((found.mean(axis=0) - expected) / error).max() < 4.5


def test_a_watcher_sees_the_penalised_loss_of_every_round() -> None:
    federation, _, problem = prepared(np.arange(PATIENTS) % 2, 2)
    seen: list[Step] = []
    found = FederatedAveraging(rounds=6).minimise(federation, problem, seen.append)
    assert tuple(seen) == found.steps
    first = problem.at(federation, problem.start, Detail.GRADIENT)
    assert seen[0].loss == pytest.approx(first.loss, rel=1e-12)
    assert seen[-1].loss < seen[0].loss


def test_another_model_is_refused() -> None:
    federation, _, problem = prepared(np.arange(PATIENTS) % 2, 2)

    def other(*arguments: object) -> None:
        raise NotImplementedError

    stranger = Problem(other, problem.alpha, problem.beta, problem.ridge, PATIENTS, 1.0)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="discrete-time"):
        FederatedAveraging().train(federation, stranger)


def test_a_rate_that_leads_uphill_is_halved_until_it_does_not() -> None:
    federation, _, problem = prepared(np.arange(PATIENTS) % 2, 2)
    optimum = Newton().minimise(federation, problem)
    seen: list[Step] = []
    solver = FederatedAveraging(learning_rate=40.0, rounds=200)
    found = solver.minimise(federation, problem, seen.append)
    assert max(step.loss for step in seen) > 2 * seen[0].loss or not all(
        np.isfinite(step.loss) for step in seen
    )
    np.testing.assert_allclose(found.beta, optimum.beta, atol=0.1)


def test_a_loss_below_zero_is_no_way_uphill() -> None:
    """In one long piece that most leave early, the hazard summed over it is large."""
    early = Cohort(COHORT.covariates, COHORT.time, np.ones(PATIENTS, dtype=np.bool_))
    federation = InProcess.from_cohorts({"all": early})
    plan = Plan(("a", "b", "c"), LINKS["log"], "include", 1e4, None, RIDGE, Newton())
    problem = start(plan, agree(plan, federation))
    optimum = Newton().minimise(federation, problem)
    seen: list[Step] = []
    found = FederatedAveraging(rounds=200).minimise(federation, problem, seen.append)
    assert seen[0].loss < 0.0
    assert found.converged
    np.testing.assert_allclose(found.beta, optimum.beta, atol=1e-3)
