"""What a study asks next follows from its plan and the sums so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from fedcox.analysis.fit import estimate
from fedcox.analysis.plan import Plan
from fedcox.analysis.replay import Replay
from fedcox.analysis.study import Study
from fedcox.engines.in_process import InProcess
from fedcox.engines.masked import Masked
from fedcox.federation.evidence import Evidence
from fedcox.federation.ledger import Ledger
from fedcox.federation.queries.covariate_sums import CovariateSums
from fedcox.federation.queries.interval_counts import IntervalCounts
from fedcox.federation.queries.last_interval import LastInterval
from fedcox.federation.query import AbstractQuery, Answer
from fedcox.federation.same_question import same_questions
from fedcox.federation.study_check import RoundRecord
from fedcox.survival.cohort import Cohort

SOLVERS: dict[str, dict[str, Any]] = {
    "newton": {"method": "newton"},
    "lbfgs": {"method": "lbfgs"},
    "lbfgs-block": {"method": "lbfgs", "scaling": "block"},
    "adam": {"method": "adam", "steps": 6},
    "adam-batches": {"method": "adam", "steps": 6, "batch_size": 40},
    "adam-random-k": {"method": "adam", "steps": 6, "compression": "random-k"},
    "fedavg": {"method": "fedavg", "rounds": 4, "local_steps": 2},
}


def cohorts(centers: int = 3, patients: int = 60) -> dict[str, Cohort]:
    rng = np.random.default_rng(5)
    parts = {}
    for number in range(centers):
        x = rng.normal(size=(patients, 3))
        happens = rng.exponential(300 * np.exp(-x @ np.array([0.5, 0.0, -0.5])))
        censored = rng.exponential(500, patients)
        parts[f"c{number}"] = Cohort(x, np.minimum(happens, censored), happens < censored)
    return parts


def plan(solver: str = "newton", **grid: float) -> Plan:
    return Plan.of(
        Study(
            outcome={"time": "t", "event": "e"},
            covariates=["x0", "x1", "x2"],
            grid={"width": 60.0, **(grid or {"horizon": 900.0})},
            model={"link": "cloglog"},
            solver=SOLVERS[solver],
            privacy={"secure_sums": True},
        )
    )


@dataclass
class Watched:
    """Keeps what a study asked, and what it was told."""

    federation: Masked
    asked: list[list[AbstractQuery[Any]]] = field(default_factory=list)
    rounds: list[RoundRecord] = field(default_factory=list)
    shows_centers: bool = False
    in_one_process: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        return self.federation.names

    @property
    def ledger(self) -> Ledger:
        return self.federation.ledger

    def evidence(self) -> Evidence | None:
        return self.federation.evidence()

    def ask(self, query: AbstractQuery[Answer]) -> Answer:
        answer: Answer = self.ask_together([query])[0]
        return answer

    def ask_together(
        self, queries: Sequence[AbstractQuery[Any]], each: Sequence[AbstractQuery[Any]] = ()
    ) -> list[Any]:
        centers = frozenset(self.names)
        replies = self.federation.ask_together(queries, each)
        self.asked.append(list(queries))
        self.rounds.append(RoundRecord(centers, tuple(replies), self.federation.evidence()))
        return replies


def watched(chosen: Plan) -> Watched:
    study = Watched(Masked.around(InProcess.from_cohorts(cohorts())))
    estimate(chosen, study)
    return study


CENTERS = frozenset(cohorts())


@pytest.mark.parametrize("solver", SOLVERS)
def test_every_question_of_every_solver_is_foreseen(solver: str) -> None:
    chosen = plan(solver)
    study, replay = watched(chosen), Replay(chosen)
    assert len(study.asked) > 5
    for number, queries in enumerate(study.asked):
        foreseen = replay.next_questions(study.rounds[:number], CENTERS)
        assert same_questions(queries, foreseen)
        assert [query.digest for query in queries] == [query.digest for query in foreseen]
    assert replay.next_questions(study.rounds, CENTERS) == ()


def test_a_study_without_a_horizon_begins_with_the_last_interval() -> None:
    chosen = plan(width=60.0)
    (first,) = Replay(chosen).next_questions([], CENTERS)
    assert isinstance(first, LastInterval)
    study = watched(chosen)
    assert same_questions(
        study.asked[1], Replay(chosen).next_questions(study.rounds[:1], CENTERS)
    )


@pytest.mark.parametrize("rounds", [1, 2, 3, 5])
def test_where_a_center_is_lost_the_study_begins_anew(rounds: int) -> None:
    chosen = plan()
    study, left = watched(chosen), frozenset(["c0", "c2"])
    lost = [*study.rounds[: rounds - 1], replace(study.rounds[rounds - 1], replies=None)]
    first = Replay(chosen).next_questions(lost, left)
    assert [type(query) for query in first] == [CovariateSums, IntervalCounts]


def test_other_sums_lead_to_other_questions() -> None:
    """So a coordinator cannot show a center other sums and ask what it likes."""
    chosen = plan()
    study = watched(chosen)
    sums = study.rounds[2].replies
    assert sums is not None
    other = replace(study.rounds[2], replies=(sums[0]._replace(beta=sums[0].beta + 0.1),))
    foreseen = Replay(chosen).next_questions([*study.rounds[:2], other], CENTERS)
    assert type(foreseen[0]) is type(study.asked[3][0])
    assert not same_questions(study.asked[3], foreseen)


def test_a_study_that_ends_with_an_error_asks_nothing_more() -> None:
    chosen = plan()
    study = watched(chosen)
    sums, life = study.rounds[0].replies or ()
    nobody = replace(sums, patients=0)
    ended = replace(study.rounds[0], replies=(nobody, life))
    assert Replay(chosen).next_questions([ended], CENTERS) == ()
