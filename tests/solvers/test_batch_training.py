"""Training on batches: the same path for any split, and that of the paper's own loop."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

from fedcox.engines.in_process import InProcess
from fedcox.federation.batch import CellBatch
from fedcox.federation.queries.derivatives import DerivativesAt
from fedcox.solvers.batch_training import (
    BatchTraining,
    Sampler,
    cell_sampler,
    patient_sampler,
)
from fedcox.solvers.losses import DiscreteTimeLoss
from fedcox.solvers.newton import Newton
from fedcox.solvers.solver import Point, Problem, Step
from fedcox.study.agreement import Agreement, agree
from fedcox.study.plan import Plan
from fedcox.survival.cohort import Cohort, FloatArray, IntArray
from fedcox.survival.derivatives import Detail
from fedcox.survival.link import LINKS
from fedcox.survival.person_periods import PersonPeriods, stack
from fedcox.survival.time_grid import CensoredInterval
from tests.problems import READINGS, simulated, split

PATIENTS = 90
COHORT = simulated(PATIENTS, 3, seed=11)


@st.composite
def splits(draw: st.DrawFn) -> tuple[IntArray, int]:
    """One to forty centers, even or with nearly all patients in one; some are empty."""
    centers = draw(st.integers(1, 40))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    shares = rng.dirichlet(np.full(centers, draw(st.sampled_from([0.05, 0.3, 50.0]))))
    return rng.choice(centers, size=PATIENTS, p=shares), centers


def agreed(
    federation: InProcess,
    link: str = "logit",
    reading: CensoredInterval = "include",
    width: float | None = 20.0,
) -> Agreement:
    plan = Plan(
        ("a", "b", "c"), LINKS[link], reading, width, None, 0.0, Newton(), few_pieces=True
    )
    return agree(plan, federation)


def problem_of(agreement: Agreement, ridge: float = 0.0) -> Problem:
    setting = agreement.setting
    events = float(agreement.events.sum())
    return Problem(
        DiscreteTimeLoss(setting),
        np.zeros(setting.intervals),
        np.zeros(setting.columns),
        np.full(setting.columns, ridge),
        agreement.counts.patients,
        events,
    )


def cells_of(agreement: Agreement, size: int, seed: int) -> Sampler:
    setting, counts = agreement.setting, agreement.counts
    rows = counts.cells(grouped=setting.link.grouped)
    total = float(rows[setting.active].sum())
    return cell_sampler(size, setting, counts.patients, total, seed)


def candidates_of(sampler: Sampler, intervals: int) -> int:
    """Pairs of patient and interval that a batch is drawn from."""
    return round(sampler.size * PATIENTS * intervals / sampler.total)


def trained(
    federation: InProcess,
    link: str = "logit",
    reading: CensoredInterval = "include",
    width: float | None = 20.0,
    *,
    by_cells: bool = True,
) -> tuple[Point, list[Step]]:
    agreement = agreed(federation, link, reading, width)
    problem = problem_of(agreement, ridge=0.5)
    sampler = (
        cells_of(agreement, 30, seed=5)
        if by_cells
        else patient_sampler(problem.loss, 12, PATIENTS, seed=5)
    )
    steps: list[Step] = []
    training = BatchTraining(learning_rate=0.02, steps=40)
    return training.train(federation, problem, sampler, steps.append), steps


@cache
def pooled(
    link: str, reading: CensoredInterval, width: float | None, by_cells: bool
) -> tuple[Point, list[Step]]:
    federation = InProcess.from_cohorts({"all": COHORT})
    return trained(federation, link, reading, width, by_cells=by_cells)


@settings(max_examples=60)
@given(
    parts=splits(),
    link=st.sampled_from(sorted(LINKS)),
    reading=st.sampled_from(READINGS),
    width=st.sampled_from([20.0, None]),
    by_cells=st.booleans(),
)
def test_any_split_takes_the_pooled_path(
    parts: tuple[IntArray, int],
    link: str,
    reading: CensoredInterval,
    width: float | None,
    by_cells: bool,
) -> None:
    federation = InProcess.from_cohorts(split(COHORT, *parts))
    (alpha, beta), steps = trained(federation, link, reading, width, by_cells=by_cells)
    (all_alpha, all_beta), all_steps = pooled(link, reading, width, by_cells)
    np.testing.assert_allclose(beta, all_beta, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(alpha, all_alpha, rtol=1e-9, atol=1e-11)
    for step, other in zip(steps, all_steps, strict=True):
        assert step.loss == pytest.approx(other.loss, rel=1e-9)


def test_centers_joined_by_the_engine_take_the_pooled_path() -> None:
    federation = InProcess.from_cohorts(split(COHORT, np.arange(PATIENTS) % 80, 80))
    found, _ = trained(federation)
    expected, _ = pooled("logit", "include", 20.0, True)
    np.testing.assert_allclose(found.beta, expected.beta, rtol=1e-9)


def stacked(agreement: Agreement, cohort: Cohort) -> tuple[PersonPeriods, FloatArray]:
    """The rows of fitted intervals, and the scaled covariates."""
    setting = agreement.setting
    rows = stack(cohort, setting.grid, setting.reading)
    kept = setting.active[rows.interval]
    place = np.cumsum(setting.active) - 1
    fitted = PersonPeriods(
        rows.patient[kept], place[rows.interval[kept]], rows.event[kept], rows.weight[kept]
    )
    return fitted, (cohort.covariates - setting.scaling.mean) / setting.scaling.spread


def test_training_is_the_papers_loop_over_rows_of_the_stack() -> None:
    """The loop written out on the stack: draw rows, cross-entropy, Adam at a constant rate."""
    agreement = agreed(InProcess.from_cohorts({"all": COHORT}))
    sampler = cells_of(agreement, 30, seed=5)
    rows, x = stacked(agreement, COHORT)
    row_of = {
        pair: row
        for row, pair in enumerate(
            zip(rows.patient.tolist(), rows.interval.tolist(), strict=True)
        )
    }
    intervals = agreement.setting.intervals
    point = m = v = np.zeros(intervals + 3)
    many = candidates_of(sampler, intervals)
    for t in range(1, 41):
        pairs = CellBatch(5, t, many, PATIENTS, intervals).pairs()
        candidates = zip(*(part.tolist() for part in pairs), strict=True)
        drawn = [row_of[pair] for pair in candidates if pair in row_of]
        theta = point[rows.interval[drawn]] + x[rows.patient[drawn]] @ point[intervals:]
        residual = expit(theta) - rows.event[drawn]
        g = np.zeros_like(point)
        np.add.at(g, rows.interval[drawn], residual)
        g[intervals:] = residual @ x[rows.patient[drawn]]
        g /= sampler.size
        g[intervals:] += 0.5 / rows.patient.size * point[intervals:]
        m = 0.9 * m + 0.1 * g
        v = 0.999 * v + 0.001 * g**2
        step = (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
        point = point - 0.02 * step
    found, _ = pooled("logit", "include", 20.0, True)
    np.testing.assert_allclose(np.concatenate(found), point, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("link", "reading"), [*(("logit", reading) for reading in READINGS), ("log", "include")]
)
def test_batches_of_cells_have_the_size_and_the_gradient_of_all_cells_on_average(
    link: str, reading: CensoredInterval
) -> None:
    federation = InProcess.from_cohorts(split(COHORT, np.arange(PATIENTS) % 3, 3))
    agreement = agreed(federation, link, reading)
    setting, sampler = agreement.setting, cells_of(agreement, 60, seed=2)
    rng = np.random.default_rng(0)
    alpha, beta = rng.normal(-2.0, 0.5, setting.intervals), rng.normal(0.0, 0.3, 3)
    assert sampler.size == pytest.approx(60, abs=0.5)
    batches = 4000
    found = np.array(
        [
            np.concatenate(sampler.ask(federation, Point(alpha, beta), step)[1:3])
            for step in range(batches)
        ]
    )
    found /= sampler.size
    whole = federation.ask(DerivativesAt(setting, alpha, beta, Detail.GRADIENT))
    expected = np.concatenate([whole.alpha, whole.beta]) / sampler.total
    error = found.std(axis=0) / np.sqrt(batches)
    assert np.abs((found.mean(axis=0) - expected) / error).max() < 4.5
    many = candidates_of(sampler, setting.intervals)
    drawn = [
        sum(
            setting.cells(center.cohort)
            .among(*CellBatch(2, step, many, PATIENTS, setting.intervals).pairs())
            .patient.size
            for center in federation.centers
        )
        for step in range(batches)
    ]
    # Halves are rows too, and count for less in the size.
    rows = sum(setting.cells(center.cohort).total for center in federation.centers)
    expected_rows = sampler.size * rows / sampler.total
    assert np.mean(drawn) == pytest.approx(expected_rows, abs=5 * np.std(drawn) / batches**0.5)
    if link == "log":  # parts of a piece are whole rows
        assert rows == sampler.total


def test_one_round_a_step_of_intervals_and_columns_and_none_after_the_last() -> None:
    federation = InProcess.from_cohorts(split(COHORT, np.arange(PATIENTS) % 2, 2))
    agreement = agreed(federation)
    mark = federation.ledger.mark()
    problem, sampler = problem_of(agreement), cells_of(agreement, 30, seed=0)
    BatchTraining(steps=7).train(federation, problem, sampler)
    rows = federation.ledger.since(mark)
    parameters = agreement.setting.intervals + 3
    assert len(rows) == 2 * 7
    assert {row.query for row in rows} == {"gradient of a batch of cells"}
    assert {row.numbers_up for row in rows} == {1 + parameters}
    assert {row.numbers_down for row in rows[2:]} == {parameters + 4}


def test_a_batch_of_cells_has_no_curvature() -> None:
    federation = InProcess.from_cohorts({"all": COHORT})
    setting = agreed(federation).setting
    batch = CellBatch(0, 1, 10, PATIENTS, setting.intervals)
    question = DerivativesAt(
        setting, np.zeros(setting.intervals), np.zeros(3), Detail.HESSIAN, batch
    )
    with pytest.raises(ValueError, match="no curvature"):
        federation.ask(question)


@pytest.mark.parametrize("link", ["log", "logit"])
def test_many_cells_and_steps_end_near_the_optimum(link: str) -> None:
    federation = InProcess.from_cohorts({"all": COHORT})
    agreement = agreed(federation, link)
    problem = problem_of(agreement)
    optimum = Newton().minimise(federation, problem)
    sampler = cells_of(agreement, 2000, seed=1)
    found = BatchTraining(0.005, 3000).train(federation, problem, sampler)
    np.testing.assert_allclose(found.beta, optimum.beta, atol=0.03)
