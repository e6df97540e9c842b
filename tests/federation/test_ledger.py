"""Rounds and bytes: what a question costs, counted number by number."""

from __future__ import annotations

import numpy as np
import pytest

from fedcox.engines.in_process import InProcess
from fedcox.federation.batch import PatientBatch
from fedcox.federation.ledger import Ledger, LedgerRow
from fedcox.federation.queries.derivatives import DerivativesAt
from fedcox.federation.setting import Setting
from fedcox.solvers.adam import Adam
from fedcox.solvers.lbfgs import LBFGS
from fedcox.solvers.newton import Newton
from fedcox.solvers.solver import AbstractSolver
from fedcox.study.fit import Estimate, estimate
from fedcox.study.plan import Plan
from fedcox.survival.derivatives import Detail
from fedcox.survival.link import LINKS
from fedcox.survival.scaling import Scaling
from fedcox.survival.time_grid import TimeGrid
from tests.problems import simulated, split

COHORT = simulated(300, 4, seed=3)
P = COHORT.columns
CENTERS = split(COHORT, np.arange(300) % 3, 3)


def rows_of(
    solver: AbstractSolver, width: float | None = 25.0, link: str = "logit"
) -> tuple[Estimate, int, int]:
    """A fit, with its number of intervals and of fitted ones."""
    plan = Plan(tuple("abcd"), LINKS[link], "include", width, None, 0.0, solver)
    found = estimate(plan, InProcess.from_cohorts(CENTERS))
    setting = found.agreement.setting
    return found, setting.grid.intervals, setting.intervals


def curvature(detail: str, t: int) -> int:
    """Distinct numbers of the second derivatives: a symmetric block counts once."""
    square = P * (P + 1) // 2
    return {
        "gradient": 0,
        "diagonal": t + P,
        "block": t + square,
        "hessian": t + t * P + square,
        "information": t + t * P + square,
    }[detail]


@pytest.mark.parametrize("detail", list(Detail))
def test_a_reply_is_loss_gradient_and_the_curvature_asked_for(detail: Detail) -> None:
    grid = TimeGrid.regular(30.0, 150.0)
    setting = Setting(
        grid, np.array([1, 1, 0, 1, 1], dtype=bool), "include", LINKS["logit"], Scaling.none(P)
    )
    t = 4
    federation = InProcess.from_cohorts(CENTERS)
    query = DerivativesAt(setting, np.full(t, -2.0), np.zeros(P), detail)
    federation.ask(query)
    federation.ask(query)
    rows = federation.ledger.since((0, 0))
    assert [row.round for row in rows] == [1, 1, 1, 2, 2, 2]
    assert {row.numbers_up for row in rows} == {1 + t + P + curvature(detail.value, t)}
    # The setting goes to each center once: width and horizon, five flags, mean, spread and
    # place of each column, and two names.
    first, second = rows[0].numbers_down, rows[3].numbers_down
    assert second == t + P
    assert first == second + 2 + 5 + 3 * P + 2


def test_a_batch_costs_four_numbers_more_to_ask_and_none_to_answer() -> None:
    grid = TimeGrid.regular(30.0, 150.0)
    setting = Setting(grid, np.ones(5, dtype=bool), "include", LINKS["logit"], Scaling.none(P))
    point = (setting, np.full(5, -2.0), np.zeros(P), Detail.GRADIENT)
    federation = InProcess.from_cohorts(CENTERS)
    federation.ask(DerivativesAt(*point))
    mark = federation.ledger.mark()
    federation.ask(DerivativesAt(*point, PatientBatch(seed=1, step=1, size=20, population=300)))
    for row in federation.ledger.since(mark):
        assert (row.numbers_up, row.numbers_down) == (1 + 5 + P, 5 + P + 4)
        assert row.query == "gradient of a batch"


@pytest.mark.parametrize(
    "solver",
    [Newton(), LBFGS(scaling="diagonal"), LBFGS(scaling="block"), Adam(steps=6)],
    ids=["newton", "diagonal", "block", "adam"],
)
@pytest.mark.parametrize("width", [25.0, None], ids=["width", "events"])
def test_every_row_of_a_fit_is_accounted_for(
    solver: AbstractSolver, width: float | None
) -> None:
    found, intervals, t = rows_of(solver, width)
    describing = 2 if width else intervals
    square = P * (P + 1) // 2
    expected = {
        "covariate sums": (1 + 2 * P, 0),
        "longest follow-up": (1, 0),
        "covariate scatter": (square, P),
        # All patients, those after the horizon, their events; three numbers an interval.
        "interval counts": (3 + 3 * intervals, describing + 1),
    }
    setting = describing + intervals + 3 * P + 2
    seen = set()
    for row in found.ledger:
        assert row.bytes_up == 8 * row.numbers_up
        assert row.bytes_down == 8 * row.numbers_down
        if row.query == "distinct event times":
            cohort = CENTERS[row.center]
            own = np.unique(cohort.time[cohort.event]).size
            assert (row.numbers_up, row.numbers_down) == (own, 1)
        elif row.query in expected:
            assert (row.numbers_up, row.numbers_down) == expected[row.query]
        else:
            assert row.numbers_up == 1 + t + P + curvature(row.query, t)
            once = setting if row.round == 3 else 0
            assert row.numbers_down == t + P + once
        seen.add(row.query)
    assert {"covariate sums", "covariate scatter", "interval counts", "information"} <= seen
    assert found.bytes_up == sum(row.bytes_up for row in found.ledger)
    assert found.bytes_down == sum(row.bytes_down for row in found.ledger)
    assert found.rounds == max(row.round for row in found.ledger)
    assert {row.round for row in found.ledger} == set(range(1, found.rounds + 1))
    assert {row.center for row in found.ledger} == set(CENTERS)


@pytest.mark.parametrize("width", [25.0, None], ids=["width", "events"])
def test_every_row_of_a_fit_on_pieces_is_accounted_for(width: float | None) -> None:
    found, intervals, t = rows_of(Newton(), width, "log")
    ties = 0 if width else intervals
    setting = intervals + 1 + 1 + ties + intervals + 3 * P + 2  # bounds, unit, ties, flags, …
    queries = []
    for row in found.ledger:
        if row.query == "interval counts":  # on cells that pieces are cut from
            cells = row.numbers_down - 3
            assert row.numbers_up == 3 + 3 * cells
            assert cells >= (intervals if width else 2)  # tied event times have several pieces
        elif row.round > 2:
            assert row.numbers_up == 1 + t + P + curvature(row.query, t)
            assert row.numbers_down == t + P + (setting if row.round == 3 else 0)
        queries.append(row.query)
    before = {"covariate sums", "longest follow-up", "recorded unit", "interval counts"}
    assert before | {"covariate scatter", "hessian"} <= set(queries)
    assert ("distinct event times" in queries) == (width is None)
    assert found.rounds == max(row.round for row in found.ledger)


def test_two_rounds_come_before_the_fit() -> None:
    found, _, _ = rows_of(Newton())
    before = {(row.round, row.query) for row in found.ledger if row.round <= 2}
    assert before == {
        (1, "covariate sums"),
        (1, "longest follow-up"),
        (2, "covariate scatter"),
        (2, "interval counts"),
    }


def test_a_horizon_in_the_study_spares_the_question_for_it() -> None:
    plan = Plan(tuple("abcd"), LINKS["logit"], "include", 25.0, 100.0, 0.0, Newton())
    found = estimate(plan, InProcess.from_cohorts(CENTERS))
    assert "longest follow-up" not in {row.query for row in found.ledger}


def test_lbfgs_sends_no_time_by_covariate_block_before_the_last_round() -> None:
    for scaling in ("diagonal", "block"):
        solver = LBFGS(scaling="diagonal" if scaling == "diagonal" else "block")
        found, _, _ = rows_of(solver)
        asked = [row.query for row in found.ledger if row.center == "center 00"][4:]
        assert asked[0] == scaling
        assert set(asked[1:-1]) == {"gradient"}
        assert asked[-1] == "information"


def test_a_second_fit_on_the_same_federation_counts_from_one() -> None:
    plan = Plan(tuple("abcd"), LINKS["logit"], "include", 25.0, None, 0.0, Newton())
    federation = InProcess.from_cohorts(CENTERS)
    first, second = estimate(plan, federation), estimate(plan, federation)
    assert first.rounds == second.rounds
    assert first.ledger == second.ledger


def test_a_ledger_counts_rounds_and_eight_bytes_a_number() -> None:
    ledger = Ledger()
    ledger.open_round()
    ledger.record("A", "sum", 3, 2)
    mark = ledger.mark()
    ledger.open_round()
    ledger.record("B", "sum", 1, 0)
    assert ledger.rounds == 2
    assert ledger.since((0, 0))[0] == LedgerRow(1, "A", "sum", 3, 24, 2, 16)
    assert ledger.since(mark) == (LedgerRow(1, "B", "sum", 1, 8, 0, 0),)
