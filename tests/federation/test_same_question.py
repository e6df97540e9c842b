from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcox.federation.batch import PatientBatch
from fedcox.federation.queries.derivatives import DerivativesAt
from fedcox.federation.queries.interval_counts import IntervalCounts
from fedcox.federation.queries.local_steps import LocalSteps, LocalTraining
from fedcox.federation.same_question import same_questions
from fedcox.federation.setting import Setting
from fedcox.survival.derivatives import Detail
from fedcox.survival.link import LINKS
from fedcox.survival.scaling import Scaling
from fedcox.survival.time_grid import TimeGrid


def setting(
    edges: float = 90.0, mean: float = 1.0, spread: float = 1e-6, link: str = "logit"
) -> Setting:
    scaling = Scaling(np.arange(2), np.array([0.0, mean]), np.array([1e6, spread]))
    grid = TimeGrid(np.array([edges, 180.0]))
    return Setting(grid, np.ones(2, dtype=np.bool_), "include", LINKS[link], scaling)


def gradient(where: Setting | None = None, **changes: Any) -> DerivativesAt:
    query = DerivativesAt(
        where or setting(), np.array([-2.0, -1.0]), np.array([0.3, 0.0]), Detail.GRADIENT
    )
    return replace(query, **changes)


def same(one: Any, other: Any) -> bool:
    forth, back = same_questions([one], [other]), same_questions([other], [one])
    assert forth == back
    return forth


def test_a_question_made_again_is_the_same() -> None:
    assert same(gradient(), gradient())
    assert same_questions([], [])
    assert not same_questions([gradient()], [])
    assert not same_questions([gradient()], [gradient(), gradient()])


@given(digits=st.floats(-1e-10, 1e-10))
def test_last_digits_of_what_is_computed_do_not_count(digits: float) -> None:
    near = 1.0 + digits
    assert same(gradient(), gradient(beta=np.array([0.3 * near, digits])))
    assert same(gradient(), gradient(alpha=near * np.array([-2.0, -1.0])))
    assert same(gradient(), gradient(setting(mean=near, spread=1e-6 * near)))


@pytest.mark.parametrize(
    "other",
    [
        gradient(beta=np.array([0.3, 1e-6])),
        gradient(beta=np.array([0.3])),
        gradient(beta=np.array([0.3, np.nan])),
        gradient(alpha=np.array([-2.0, -1.000001])),
        gradient(detail=Detail.INFORMATION),
        gradient(batch=PatientBatch(0, 1, 10, 100)),
        gradient(setting(edges=np.nextafter(90.0, 0.0))),
        gradient(setting(spread=1.001e-6)),
        gradient(setting(mean=1.001)),
        gradient(setting(link="cloglog")),
        IntervalCounts(setting().grid, "include"),
    ],
    ids=lambda query: query.name,
)
def test_everything_else_does(other: Any) -> None:
    assert not same(gradient(), other)


def test_what_centers_train_by_is_compared_too() -> None:
    def steps(rate: float = 0.1, many: int = 3) -> LocalSteps:
        training = LocalTraining(setting(), np.zeros(2), np.ones(4), "adam", many)
        return LocalSteps(training, np.zeros(2), np.zeros(2), rate, 1)

    assert same(steps(), steps())
    assert not same(steps(), steps(rate=0.2))
    assert not same(steps(), steps(many=4))
