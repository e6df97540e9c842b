"""A center decides what it answers: nothing that gives patients away, outside experiments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedcox.engines.in_process import InProcess
from fedcox.errors import InputError, RefusedError
from fedcox.federation.center import Center
from fedcox.federation.queries.covariate_sums import CovariateSums
from fedcox.federation.queries.outcome_counts import OutcomeCounts
from fedcox.federation.queries.risk_set_sums import EventSumsAt, RiskSetSetting, RiskSetSumsAt
from fedcox.federation.queries.stratified_cox import CoxSetting, StratifiedCoxAt
from fedcox.federation.query import AbstractQuery
from fedcox.survival.derivatives import Detail
from fedcox.survival.scaling import Scaling
from tests.problems import simulated

COHORT = simulated(30, 2, seed=3)
TIMES = np.unique(COHORT.time[COHORT.event])
NOTHING = Scaling.none(2)
REFUSED: list[AbstractQuery[Any]] = [
    EventSumsAt(TIMES, np.zeros(2)),
    RiskSetSumsAt(RiskSetSetting(NOTHING, TIMES), np.zeros(2), Detail.GRADIENT),
    RiskSetSumsAt(RiskSetSetting(NOTHING, TIMES), np.zeros(2), Detail.HESSIAN),
]
ANSWERED: list[AbstractQuery[Any]] = [
    CovariateSums(),
    OutcomeCounts(),
    StratifiedCoxAt(CoxSetting(NOTHING, "efron"), np.zeros(2), Detail.HESSIAN),
]


@pytest.mark.parametrize("query", REFUSED, ids=lambda query: query.name)
def test_a_center_refuses_and_says_what_and_why(query: AbstractQuery[Any]) -> None:
    with pytest.raises(RefusedError) as refusal:
        Center("Lyon", COHORT).answer(query)
    text = str(refusal.value)
    assert "'Lyon'" in text
    assert f"'{query.name}'" in text
    assert "Single patients" in text
    assert isinstance(refusal.value, InputError)  # told in words, exit status 2


@pytest.mark.parametrize("query", REFUSED, ids=lambda query: query.name)
def test_in_an_experiment_it_answers(query: AbstractQuery[Any]) -> None:
    answer = Center("Lyon", COHORT, allow_experiments=True).answer(query)
    assert query.numbers_in(answer) > 0


@pytest.mark.parametrize("query", ANSWERED, ids=lambda query: query.name)
def test_other_questions_are_answered_everywhere(query: AbstractQuery[Any]) -> None:
    assert query.numbers_in(Center("Lyon", COHORT).answer(query)) > 0


def test_one_center_that_refuses_is_enough_among_many() -> None:
    centers = [
        Center(f"center {number:02d}", COHORT, allow_experiments=number != 70)
        for number in range(80)
    ]
    with pytest.raises(RefusedError, match="center 70"):
        InProcess(centers).ask(REFUSED[0])
