"""A solver watched: where it asked, and what that took."""

from __future__ import annotations

import numpy as np
import pytest

from fedcox.engines.in_process import InProcess
from fedcox.paper.communication import Messages, RecordedRun, in_centers, recorded, study_cohort
from fedcox.solvers.lbfgs import LBFGS
from fedcox.solvers.newton import Newton
from fedcox.solvers.solver import AbstractSolver
from fedcox.study.cox import fit_cox


def webdisco(federation: InProcess, solver: AbstractSolver) -> None:
    fit_cox(federation, ties="breslow", loss="webdisco", solver=solver)


@pytest.fixture(scope="module")
def optimum() -> RecordedRun:
    return recorded(webdisco, in_centers(study_cohort(300, 4, seed=0), seed=0), Newton())


def test_watching_changes_nothing_and_counts_every_round() -> None:
    cohort = study_cohort(300, 4, seed=0)
    watched, alone = in_centers(cohort, seed=0), in_centers(cohort, seed=0)
    run = recorded(webdisco, watched, LBFGS())
    fitted = fit_cox(alone, ties="breslow", loss="webdisco", solver=LBFGS())
    assert watched.ledger.since((0, 0)) == alone.ledger.since((0, 0))
    assert run.everything.rounds == fitted.rounds
    assert run.set_up.rounds + len(run.asked) == fitted.rounds


def test_every_center_sends_as_much_as_the_one_counted(optimum: RecordedRun) -> None:
    federation = in_centers(study_cohort(300, 4, seed=0), seed=0)
    recorded(webdisco, federation, Newton())
    rows = [row for row in federation.ledger.since((0, 0)) if row.query.startswith("risk-set")]
    for name in federation.names:
        sent = sum(row.numbers_up for row in rows if row.center == name)
        assert sent == sum(asked.messages.numbers_up for asked in optimum.asked)


@pytest.mark.parametrize("share", [1.0, 0.01, 1e-5])
def test_the_point_in_hand_after_those_rounds_is_near_and_the_one_before_is_not(
    optimum: RecordedRun, share: float
) -> None:
    run = recorded(webdisco, in_centers(study_cohort(300, 4, seed=0), seed=0), LBFGS())
    found = run.until_within(share, optimum)
    assert found is not None
    replies = found.rounds - run.set_up.rounds
    points = [*(asked.beta for asked in run.asked), run.solution.beta]
    information = np.linalg.inv(optimum.solution.information.beta)
    error = np.sqrt(np.diag(information))

    def farthest(beta: np.ndarray) -> float:
        return float((np.abs(beta - optimum.solution.beta) / error).max())

    assert all(farthest(point) < share for point in points[replies:])
    assert farthest(points[replies - 1]) >= share


def test_a_run_that_ends_elsewhere_never_was_near(optimum: RecordedRun) -> None:
    federation = in_centers(study_cohort(300, 4, seed=0), seed=0)
    run = recorded(webdisco, federation, LBFGS(max_rounds=2))
    assert run.until_within(0.01, optimum) is None


def test_messages_add_up() -> None:
    one, other = Messages(1, 10, 3), Messages(2, 5, 4)
    assert one + other == Messages(3, 15, 7)
    assert other - one == Messages(1, -5, 1)
    assert one * 3 == Messages(3, 30, 9)
    assert one.bytes == 8 * 13
