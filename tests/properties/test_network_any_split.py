"""Training a network over any split of the patients is training it on the pooled patients."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, reduce
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedcox.engines.in_process import InProcess
from fedcox.engines.masked import Masked
from fedcox.federation.batch import EpochBatch, EpochCells, HeldOut
from fedcox.federation.queries.baseline_slopes import BaselineSlopesAt
from fedcox.federation.queries.derivatives import DerivativesAt
from fedcox.federation.queries.network_loss import NetworkLossAt
from fedcox.federation.query import AbstractAdditiveQuery
from fedcox.solvers.adam import NetworkAdam
from fedcox.study.plan import NetworkPlan
from fedcox.study.trained_network import TrainedNetwork
from fedcox.study.training import train_network
from fedcox.survival.cohort import Cohort
from fedcox.survival.derivatives import Detail
from fedcox.survival.link import LINKS
from tests.network_examples import (
    GRID,
    KINDS,
    NETWORKS,
    PATIENTS,
    Kind,
    network_setting,
    patients,
    split_choices,
    split_up,
    uneven,
)
from tests.problems import READINGS

pytestmark = pytest.mark.filterwarnings("ignore::fedcox.errors.EmptyIntervalsWarning")

#: 60 patients in batches of 6 are 10 steps an epoch: a hundred in all.
HUNDRED_STEPS = NetworkAdam(epochs=10, batch_size=6, learning_rate=1e-2)


def plan(kind: Kind, **changed: Any) -> NetworkPlan:
    made = NetworkPlan(NETWORKS[kind], width=25.0, horizon=150.0, solver=HUNDRED_STEPS, seed=3)
    return replace(made, **changed)


@cache
def pooled(asked: NetworkPlan) -> TrainedNetwork:
    return train_network(asked, InProcess.from_cohorts({"all": patients()}))


def difference(found: TrainedNetwork, expected: TrainedNetwork) -> float:
    pairs = ((found.theta, expected.theta), (found.alpha, expected.alpha))
    finite = [np.isfinite(other) for _, other in pairs]
    return max(
        float(np.abs(own[here] - other[here]).max())
        for (own, other), here in zip(pairs, finite, strict=True)
    )


@pytest.mark.parametrize("kind", KINDS)
def test_a_hundred_steps_end_where_pooled_training_ends(kind: Kind) -> None:
    asked = plan(kind, link="logit" if kind == "bags" else "cloglog", balanced=kind == "both")
    found = train_network(asked, InProcess.from_cohorts(split_up(patients(), *uneven())))
    assert difference(found, pooled(asked)) < 1e-5
    assert found.record is not None
    assert _steps(found) == 100


def _steps(network: TrainedNetwork) -> int:
    assert network.record is not None
    asked = {row.round for row in network.record.ledger if "network gradient" in row.query}
    return len(asked)


@settings(max_examples=6)
@given(
    kind=st.sampled_from(KINDS),
    seed=st.integers(0, 2**32),
    link=st.sampled_from(sorted(LINKS)),
    width=st.sampled_from([25.0, None]),
    balanced=st.booleans(),
)
def test_any_split_takes_the_path_of_pooled_training(
    kind: Kind, seed: int, link: Any, width: float | None, balanced: bool
) -> None:
    solver = replace(HUNDRED_STEPS, epochs=2, batch_size=12)
    asked = plan(kind, link=link, balanced=balanced, solver=solver, precision="float64")
    if link == "log":  # the others need one
        asked = replace(asked, width=width)
    centers = split_up(patients(), *split_choices(seed))
    found = train_network(asked, InProcess.from_cohorts(centers))
    assert difference(found, pooled(asked)) < 1e-8


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("batching", ["patients", "rows"])
@pytest.mark.parametrize("changed", [{"width": None}, {"link": "cloglog", "reading": "half"}])
def test_in_double_precision_nothing_but_rounding_differs(
    kind: Kind, batching: Any, changed: dict[str, Any]
) -> None:
    solver = replace(HUNDRED_STEPS, epochs=2, batching=batching, batch_size=20, validation=0.2)
    asked = plan(kind, solver=solver, precision="float64", **changed)
    found = train_network(asked, InProcess.from_cohorts(split_up(patients(), *uneven())))
    expected = pooled(asked)
    assert difference(found, expected) < 1e-8
    assert found.record is not None
    assert expected.record is not None
    for own, other in zip(found.record.epochs, expected.record.epochs, strict=True):
        assert own.loss == pytest.approx(other.loss, rel=1e-10)
        assert own.validation == pytest.approx(other.validation, rel=1e-10)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("changed", [{"width": None}, {"link": "cloglog", "balanced": True}])
def test_secure_sums_end_where_pooled_training_ends(
    kind: Kind, changed: dict[str, Any]
) -> None:
    solver = replace(HUNDRED_STEPS, epochs=1, batch_size=12, validation=0.2)
    asked = plan(kind, solver=solver, precision="float64", **changed)
    centers = InProcess.from_cohorts(split_up(patients(), *uneven()))
    found = train_network(asked, Masked.around(centers))
    # Sums are exact to 2⁻³²; Adam divides a gradient by its own size.
    assert difference(found, pooled(asked)) < 1e-6


def test_many_centers_that_an_engine_joins_give_the_same() -> None:
    cohort = patients()
    solver = replace(HUNDRED_STEPS, epochs=1, batch_size=12)
    asked = plan("both", solver=solver, precision="float64")
    centers = split_up(cohort, np.arange(PATIENTS), 70)  # and ten of nobody
    found = train_network(asked, InProcess.from_cohorts(centers))
    assert difference(found, pooled(asked)) < 1e-8


def test_row_order_and_center_names_do_not_matter() -> None:
    rng = np.random.default_rng(2)
    shuffled = patients().take(rng.permutation(PATIENTS))
    parts = list(split_up(shuffled, rng.integers(0, 3, PATIENTS), 3).values())
    asked = plan("both", solver=replace(HUNDRED_STEPS, epochs=2), precision="float64")
    found = train_network(asked, InProcess.from_cohorts(dict(zip("zab", parts, strict=True))))
    assert difference(found, pooled(asked)) < 1e-8


# Questions


def questions(kind: Kind) -> dict[str, AbstractAdditiveQuery[Any]]:
    rng = np.random.default_rng(4)
    found: dict[str, AbstractAdditiveQuery[Any]] = {}
    held = HeldOut(5, 0.25, PATIENTS)
    for link, reading in zip(LINKS, READINGS, strict=True):
        setting = network_setting(kind, link=link, reading=reading, event_weight=3.0)
        alpha = rng.normal(-2.0, 0.5, GRID.intervals)
        at = setting, alpha, setting.start(1)
        place = 5, 2, 1
        batches = {
            "all": None,
            "batch": EpochBatch(*place, 20, PATIENTS),
            "batch without some": EpochBatch(*place, 20, PATIENTS, held),
            "cells": EpochCells(*place, 150, PATIENTS, GRID.intervals),
            "cells without some": EpochCells(*place, 150, PATIENTS, GRID.intervals, held),
        }
        for name, batch in batches.items():
            found[f"{name}, {link}, {reading}"] = DerivativesAt(*at, Detail.GRADIENT, batch)
        found[f"loss, {link}, {reading}"] = NetworkLossAt(*at, held)
        for detail in (Detail.DIAGONAL, Detail.HESSIAN):
            query = BaselineSlopesAt(*at, np.array([1.3]), detail)
            found[f"{query.name}, {link}, {reading}"] = query
    return found


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=2)
@given(seed=st.integers(0, 2**32))
def test_every_question_has_the_pooled_answer(kind: Kind, seed: int) -> None:
    parts = split_up(patients(), *split_choices(seed)).values()
    for name, query in questions(kind).items():
        expected = query.pack(query.answer(patients()))
        found = query.pack(reduce(query.combine, map(query.answer, parts)))
        assert expected.any()
        np.testing.assert_allclose(
            found, expected, rtol=1e-10, atol=1e-12 * np.abs(expected).max(), err_msg=name
        )
        again = query.pack(query.unpack(expected))
        np.testing.assert_array_equal(again, expected)
        assert expected.size == query.numbers_in(query.unpack(expected))


def test_questions_have_one_digest_each_and_the_same_one_again() -> None:
    for kind in KINDS:
        first, second = questions(kind), questions(kind)
        assert len({query.digest for query in first.values()}) == len(first)
        assert [q.digest for q in first.values()] == [q.digest for q in second.values()]


def test_a_batch_of_cells_adds_up_to_everything() -> None:
    setting = network_setting("both", reading="half")
    at = setting, np.full(GRID.intervals, -2.0), setting.start(1)
    whole = DerivativesAt(*at, Detail.GRADIENT)
    pairs = PATIENTS * GRID.intervals
    pieces = [
        replace(whole, batch=EpochCells(1, 1, index, 77, PATIENTS, GRID.intervals))
        for index in range(-(-pairs // 77))
    ]
    cohort: Cohort = patients()
    total = sum(query.pack(query.answer(cohort)) for query in pieces)
    np.testing.assert_allclose(total, whole.pack(whole.answer(cohort)), rtol=1e-10, atol=1e-10)
