"""One contract for every engine: whoever carries the questions, the centers answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any

import numpy as np
import pytest

from fedcox.engines.in_process import InProcess
from fedcox.errors import CohortError
from fedcox.federation.batch import PatientBatch
from fedcox.federation.center import Center
from fedcox.federation.queries.covariate_scatter import CovariateScatter
from fedcox.federation.queries.covariate_sums import CovariateSums
from fedcox.federation.queries.derivatives import DerivativesAt
from fedcox.federation.queries.event_times import EventTimes
from fedcox.federation.queries.follow_up import LongestFollowUp
from fedcox.federation.queries.interval_counts import IntervalCounts
from fedcox.federation.query import AbstractQuery, Federation
from fedcox.federation.setting import Setting
from fedcox.solvers.adam import Adam
from fedcox.solvers.newton import Newton
from fedcox.study.fit import estimate
from fedcox.study.plan import Plan
from fedcox.survival.cohort import Cohort
from fedcox.survival.derivatives import Detail
from fedcox.survival.link import LINKS
from fedcox.survival.scaling import Scaling
from fedcox.survival.time_grid import TimeGrid
from tests.engines.nvflare.direct_transport import remote_federation
from tests.problems import simulated, split

Engine = Callable[[Mapping[str, Cohort]], Federation]
#: A new engine is one more row.
ENGINES: dict[str, Engine] = {
    "in process": InProcess.from_cohorts,
    "messages": remote_federation,
}

PATIENTS = 240
COHORT = simulated(PATIENTS, 3, seed=1)
GRID = TimeGrid.regular(25.0, float(COHORT.time.max()))
SETTING = Setting(
    GRID,
    np.arange(GRID.intervals) % 5 != 4,
    "half",
    LINKS["logit"],
    Scaling(np.array([0, 2]), np.array([0.1, 0.2]), np.array([1.1, 0.9])),
)
ALPHA, BETA = np.full(SETTING.intervals, -2.0), np.array([0.3, -0.4])
QUESTIONS: dict[str, AbstractQuery[Any]] = {
    "follow-up": LongestFollowUp(),
    "event times": EventTimes(),
    "sums": CovariateSums(),
    "scatter": CovariateScatter(np.zeros(3)),
    "counts": IntervalCounts(GRID, "include"),
    **{detail.value: DerivativesAt(SETTING, ALPHA, BETA, detail) for detail in Detail},
    "batch": DerivativesAt(
        SETTING, ALPHA, BETA, Detail.GRADIENT, PatientBatch(1, 2, 50, PATIENTS)
    ),
}
#: Few centers answer one by one; an engine that holds many may join them.
SPLITS = {"one": 1, "four": 4, "forty": 40, "two hundred, some empty": 200}


def centers(number: int) -> dict[str, Cohort]:
    assignment = np.random.default_rng(number).integers(0, number, PATIENTS)
    return split(COHORT, assignment, number)


def numbers_of(answer: Any) -> Any:
    if answer is None:
        return np.empty(0)
    if isinstance(answer, tuple):
        return np.concatenate([numbers_of(part) for part in answer])
    if hasattr(answer, "__dataclass_fields__"):
        return np.concatenate([numbers_of(part) for part in vars(answer).values()])
    return np.asarray(answer, dtype=np.float64).ravel()


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> Engine:
    return ENGINES[request.param]


@pytest.mark.parametrize("size", SPLITS)
@pytest.mark.parametrize("name", QUESTIONS)
def test_the_answer_is_that_of_the_centers_combined(
    engine: Engine, name: str, size: str
) -> None:
    query, cohorts = QUESTIONS[name], centers(SPLITS[size])
    expected = reduce(query.combine, map(query.answer, cohorts.values()))
    found = engine(cohorts).ask(query)
    assert type(found) is type(expected)
    np.testing.assert_allclose(numbers_of(found), numbers_of(expected), rtol=1e-12, atol=1e-11)


@pytest.mark.parametrize("size", SPLITS)
def test_questions_asked_together_take_one_round_and_keep_their_order(
    engine: Engine, size: str
) -> None:
    cohorts = centers(SPLITS[size])
    federation = engine(cohorts)
    summed = [QUESTIONS["counts"], QUESTIONS["follow-up"], QUESTIONS["gradient"]]
    found = federation.ask_together(summed, each=[QUESTIONS["sums"], QUESTIONS["counts"]])
    assert federation.ledger.rounds == 1
    assert len(found) == 5
    for query, answer in zip(summed, found[:3], strict=True):
        expected = reduce(query.combine, map(query.answer, cohorts.values()))
        np.testing.assert_allclose(
            numbers_of(answer), numbers_of(expected), rtol=1e-12, atol=1e-11
        )
    for name, by_center in zip(("sums", "counts"), found[3:], strict=True):
        assert tuple(by_center) == federation.names
        for center, answer in by_center.items():
            own = QUESTIONS[name].answer(cohorts[center])
            np.testing.assert_array_equal(numbers_of(answer), numbers_of(own))


def test_centers_stand_in_the_order_of_their_names(engine: Engine) -> None:
    cohorts = centers(4)
    backwards = engine(dict(reversed(cohorts.items())))
    assert backwards.names == tuple(sorted(cohorts))
    query = QUESTIONS["hessian"]
    np.testing.assert_array_equal(
        numbers_of(backwards.ask(query)), numbers_of(engine(cohorts).ask(query))
    )


@pytest.mark.parametrize("size", SPLITS)
def test_every_center_has_a_row_for_every_question(engine: Engine, size: str) -> None:
    cohorts = centers(SPLITS[size])
    federation = engine(cohorts)
    mark = federation.ledger.mark()
    federation.ask(QUESTIONS["hessian"])
    federation.ask_together([QUESTIONS["sums"], QUESTIONS["event times"]])
    rows = federation.ledger.since(mark)
    asked = [(1, "hessian"), (2, "covariate sums"), (2, "distinct event times")]
    assert [(row.round, row.query, row.center) for row in rows] == [
        (number, query, name) for number, query in asked for name in federation.names
    ]
    for row in rows:
        if row.query == "distinct event times":
            own = QUESTIONS["event times"].answer(cohorts[row.center])
            assert row.numbers_up == own.size  # what this center sent, not what all did


@pytest.mark.parametrize("size", SPLITS)
def test_a_fit_is_the_pooled_fit(engine: Engine, size: str) -> None:
    for solver in (Newton(), Adam(learning_rate=0.1, steps=5, batch_size=30)):
        plan = Plan(("a", "b", "c"), LINKS["cloglog"], "include", 25.0, None, 0.0, solver)
        found = estimate(plan, engine(centers(SPLITS[size])))
        expected = estimate(plan, engine({"all": COHORT}))
        np.testing.assert_allclose(
            found.inference.coefficients, expected.inference.coefficients, rtol=1e-9
        )
        np.testing.assert_allclose(
            found.inference.standard_errors, expected.inference.standard_errors, rtol=1e-9
        )
        assert found.rounds == expected.rounds
        assert found.bytes_up == pytest.approx(SPLITS[size] * expected.bytes_up)


def test_patients_are_numbered_through_when_centers_did_not(engine: Engine) -> None:
    apart = {
        f"c{k}": Cohort(COHORT.covariates[rows], COHORT.time[rows], COHORT.event[rows])
        for k, rows in enumerate(np.split(np.arange(PATIENTS), [100, 130]))
    }
    query = QUESTIONS["batch"]
    np.testing.assert_allclose(
        numbers_of(engine(apart).ask(query)),
        numbers_of(engine({"all": COHORT}).ask(query)),
        rtol=1e-12,
        atol=1e-12,
    )


def test_one_process_needs_centers_with_the_same_columns() -> None:
    with pytest.raises(CohortError, match="Give at least one"):
        InProcess([])
    with pytest.raises(CohortError, match=r"different numbers of covariates \(2, 3\)"):
        InProcess.from_cohorts({"A": COHORT, "B": simulated(5, 2)})


def test_a_center_is_given_once() -> None:
    with pytest.raises(CohortError, match="'A' is given 2 times"):
        InProcess([Center("A", COHORT), Center("B", COHORT), Center("A", COHORT)])
