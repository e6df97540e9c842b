"""The test to hold on to: any way of splitting the patients gives the pooled answer.

In exact time, the default, and in grouped time. Under secure sums, and with the default's own
pieces on real patients: `tests/study/test_piecewise_fit.py`. Noised sums:
`tests/federation/test_bounded_sums.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, reduce
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fedcox.engines.in_process import InProcess
from fedcox.federation.batch import PatientBatch
from fedcox.federation.queries.covariate_scatter import CovariateScatter
from fedcox.federation.queries.covariate_sums import CovariateSums
from fedcox.federation.queries.derivatives import DerivativesAt
from fedcox.federation.queries.event_times import EventTimes
from fedcox.federation.queries.follow_up import LongestFollowUp
from fedcox.federation.queries.interval_counts import IntervalCounts
from fedcox.federation.queries.last_interval import LastInterval
from fedcox.federation.queries.outcome_counts import OutcomeCounts
from fedcox.federation.query import AbstractQuery
from fedcox.federation.setting import Setting
from fedcox.solvers.adam import Adam
from fedcox.solvers.lbfgs import LBFGS
from fedcox.solvers.newton import Newton
from fedcox.solvers.solver import AbstractSolver
from fedcox.study.fit import Estimate, estimate, fit
from fedcox.study.plan import Plan
from fedcox.study.study import Study
from fedcox.survival.cohort import Cohort, FloatArray, IntArray
from fedcox.survival.derivatives import Detail
from fedcox.survival.link import LINKS
from fedcox.survival.scaling import Scaling
from fedcox.survival.time_grid import CensoredInterval, TimeGrid
from tests.problems import LINK_NAMES, READINGS, simulated, split

# About half a center's patients are censored: some intervals are without an event.
pytestmark = pytest.mark.filterwarnings("ignore::fedcox.errors.EmptyIntervalsWarning")

PATIENTS = 90
SOLVERS: dict[str, AbstractSolver] = {
    "newton": Newton(),
    "lbfgs by the diagonal": LBFGS(scaling="diagonal"),
    "lbfgs by the block": LBFGS(scaling="block"),
    "adam": Adam(learning_rate=0.05, steps=25),
    "adam on batches": Adam(learning_rate=0.05, steps=25, batch_size=16, seed=3),
}


@cache
def patients(incomplete: bool = False) -> Cohort:
    """Ninety patients; with `incomplete` a sixth of the second column is missing."""
    cohort = simulated(PATIENTS, 3, seed=11)
    if not incomplete:
        return cohort
    covariates = cohort.covariates.copy()
    covariates[::6, 1] = np.nan
    return Cohort(covariates, cohort.time, cohort.event)


@dataclass(frozen=True)
class Choice:
    """One way of analysing the same patients."""

    link: str
    reading: CensoredInterval
    width: float | None
    horizon: float | None
    ridge: float
    incomplete: bool
    solver: str = "newton"

    @property
    def plan(self) -> Plan:
        return Plan(
            columns=("a", "b", "c"),
            link=LINKS[self.link],
            reading=self.reading,
            width=self.width,
            horizon=self.horizon,
            ridge=self.ridge,
            solver=SOLVERS[self.solver],
        )


ALIKE: dict[str, Any] = {
    "width": st.sampled_from([None, 12.0, 40.0]),
    "horizon": st.sampled_from([None, 70.0]),
    "ridge": st.sampled_from([0.0, 2.5]),
    "incomplete": st.booleans(),
}
choices = st.one_of(
    st.builds(Choice, link=st.just("log"), reading=st.just("include"), **ALIKE),
    st.builds(
        Choice, link=st.sampled_from(LINK_NAMES), reading=st.sampled_from(READINGS), **ALIKE
    ),
)


@st.composite
def splits(draw: st.DrawFn, total: int = PATIENTS) -> tuple[IntArray, int]:
    """A center for each patient: 1 to 40 centers, from even to nearly all patients in one.

    Uneven shares leave some centers empty and give others a single patient.
    """
    centers = draw(st.integers(1, 40))
    evenness = draw(st.sampled_from([0.05, 0.3, 2.0, 50.0]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    shares = rng.dirichlet(np.full(centers, evenness))
    return rng.choice(centers, size=total, p=shares), centers


@cache
def pooled(choice: Choice) -> Estimate:
    return estimate(choice.plan, InProcess.from_cohorts({"all": patients(choice.incomplete)}))


def assert_same_fit(found: Estimate, expected: Estimate, tolerance: float = 1e-9) -> None:
    np.testing.assert_allclose(
        found.inference.coefficients,
        expected.inference.coefficients,
        rtol=tolerance,
        atol=tolerance,
    )
    np.testing.assert_allclose(
        found.inference.standard_errors, expected.inference.standard_errors, rtol=tolerance
    )
    np.testing.assert_allclose(found.alpha, expected.alpha, rtol=tolerance, atol=tolerance)
    assert found.log_likelihood == pytest.approx(expected.log_likelihood, rel=1e-11)
    assert found.solution.converged == expected.solution.converged
    assert found.rounds == expected.rounds


@settings(max_examples=150)
@given(choice=choices, parts=splits())
def test_any_split_over_centers_gives_the_pooled_fit(
    choice: Choice, parts: tuple[IntArray, int]
) -> None:
    centers = split(patients(choice.incomplete), *parts)
    found = estimate(choice.plan, InProcess.from_cohorts(centers))
    assert found.solution.converged
    assert_same_fit(found, pooled(choice))


@cache
def many_patients() -> Cohort:
    """Enough for every way through the kernel: half of the times are tied, half distinct."""
    cohort = simulated(1200, 4, seed=21)
    rng = np.random.default_rng(3)
    early = rng.uniform(-0.9, 0.0, 1200) * (np.arange(1200) % 2)
    return Cohort(cohort.covariates, cohort.time + early, cohort.event)


@cache
def many_pooled(link: str, reading: CensoredInterval, width: float | None) -> Estimate:
    plan = Plan(tuple("abcd"), LINKS[link], reading, width, None, 0.0, Newton())
    return estimate(plan, InProcess.from_cohorts({"all": many_patients()}))


@settings(max_examples=20)
@given(
    link=st.sampled_from(LINK_NAMES),
    reading=st.sampled_from(READINGS),
    width=st.sampled_from([None, 1.0, 30.0]),
    parts=splits(1200),
    joined=st.booleans(),
)
def test_any_split_of_a_thousand_patients_gives_the_pooled_fit(
    link: str,
    reading: CensoredInterval,
    width: float | None,
    parts: tuple[IntArray, int],
    joined: bool,
) -> None:
    assignment, centers = parts
    if joined:  # so many centers that the engine joins them
        centers = 100 + centers
        assignment = (7 * assignment + np.arange(1200)) % centers
    found = estimate(
        Plan(tuple("abcd"), LINKS[link], reading, width, None, 0.0, Newton()),
        InProcess.from_cohorts(split(many_patients(), assignment, centers)),
    )
    assert_same_fit(found, many_pooled(link, reading, width))


def assert_same_path(found: Estimate, expected: Estimate, digits: float) -> None:
    """Every step alike to rounding, down to where nothing but rounding is left."""
    ours, theirs = found.solution.steps, expected.solution.steps
    assert abs(len(ours) - len(theirs)) <= 1
    for step, other in zip(ours, theirs, strict=False):
        assert step.loss == pytest.approx(other.loss, rel=digits)
        assert (step.decrement is None) == (other.decrement is None)
        if step.decrement is not None:  # Adam knows none
            assert step.decrement == pytest.approx(other.decrement, rel=1e-5, abs=1e-9)


@pytest.mark.parametrize("solver", SOLVERS)
@settings(max_examples=15)
@given(choice=choices, parts=splits())
def test_every_solver_takes_the_same_path_however_the_patients_are_split(
    solver: str, choice: Choice, parts: tuple[IntArray, int]
) -> None:
    choice = Choice(**{**vars(choice), "solver": solver})
    centers = split(patients(choice.incomplete), *parts)
    found, expected = estimate(choice.plan, InProcess.from_cohorts(centers)), pooled(choice)
    # Adam divides a gradient by its own size: where α starts, that is rounding over rounding.
    assert_same_path(found, expected, digits=1e-8 if solver.startswith("adam") else 1e-11)
    np.testing.assert_allclose(
        found.inference.coefficients, expected.inference.coefficients, rtol=1e-7, atol=1e-7
    )


# Queries


def questions() -> dict[str, AbstractQuery[Any]]:
    """The questions of an exact linear fit, once for each thing they may be asked about."""
    cohort = patients(incomplete=True)
    asked: dict[str, AbstractQuery[Any]] = {
        "follow-up": LongestFollowUp(),
        "event times": EventTimes(),
        "event times up to a horizon": EventTimes(60.0),
        "last interval": LastInterval(TimeGrid.regular(20.0, 1000.0)),
        "patients and events": OutcomeCounts(),
        "covariate sums": CovariateSums(),
        "covariate scatter": CovariateScatter(np.array([0.1, -0.2, 0.3])),
    }
    grids = {
        "intervals": TimeGrid.regular(20.0, float(cohort.time.max())),
        "short": TimeGrid.regular(25.0, 90.0),
        "instants": TimeGrid.at_events(cohort.time[cohort.event]),
    }
    rng = np.random.default_rng(0)
    for name, grid in grids.items():
        for reading in READINGS:
            asked[f"counts, {name}, {reading}"] = IntervalCounts(grid, reading)
        for link in LINK_NAMES:
            active = rng.random(grid.intervals) < 0.8
            scaling = Scaling(np.array([0, 1]), np.array([0.1, -0.3]), np.array([1.2, 0.7]))
            setting = Setting(grid, active, READINGS[len(link) % 3], LINKS[link], scaling)
            alpha = rng.normal(-2.5, 0.5, setting.intervals)
            for detail in Detail:
                at = (setting, alpha, np.array([0.4, -0.2]), detail)
                asked[f"{detail.value}, {name}, {link}"] = DerivativesAt(*at)
                asked[f"{detail.value} of a batch, {name}, {link}"] = DerivativesAt(
                    *at, PatientBatch(seed=5, step=2, size=40, population=PATIENTS)
                )
    return asked


QUESTIONS = questions()


def numbers_of(answer: Any) -> FloatArray:
    """Everything an answer says, as one vector."""
    if answer is None:
        return np.empty(0)
    if isinstance(answer, tuple):
        return np.concatenate([numbers_of(part) for part in answer])
    if hasattr(answer, "__dataclass_fields__"):
        return np.concatenate([numbers_of(part) for part in vars(answer).values()])
    return np.asarray(answer, dtype=np.float64).ravel()


def assert_same_answer(found: Any, expected: Any) -> None:
    ours, theirs = numbers_of(found), numbers_of(expected)
    assert ours.shape == theirs.shape
    # Thirteen digits of the largest: sums over patients may cancel.
    np.testing.assert_allclose(
        ours, theirs, rtol=1e-12, atol=1e-13 * np.abs(theirs).max(initial=0)
    )


@pytest.mark.parametrize("name", QUESTIONS)
@settings(max_examples=8)
@given(parts=splits())
def test_every_question_has_the_pooled_answer(name: str, parts: tuple[IntArray, int]) -> None:
    query, cohort = QUESTIONS[name], patients(incomplete=True)
    answers = [query.answer(part) for part in split(cohort, *parts).values()]
    assert_same_answer(reduce(query.combine, answers), query.answer(cohort))


@pytest.mark.parametrize("name", QUESTIONS)
@settings(max_examples=4)
@given(seed=st.integers(0, 2**32))
def test_combining_answers_is_associative_and_commutative(name: str, seed: int) -> None:
    query, rng = QUESTIONS[name], np.random.default_rng(seed)
    parts = split(patients(incomplete=True), rng.integers(0, 3, PATIENTS), 4)  # one is empty
    a, b, c, nobody = (query.answer(part) for part in parts.values())
    left = query.combine(query.combine(a, b), c)
    right = query.combine(a, query.combine(b, c))
    assert_same_answer(left, right)
    assert_same_answer(query.combine(a, b), query.combine(b, a))
    assert_same_answer(query.combine(nobody, a), a)
    assert_same_answer(query.combine(a, nobody), a)


def test_questions_have_one_digest_each() -> None:
    digests = {query.digest for query in QUESTIONS.values()}
    assert len(digests) == len(QUESTIONS)
    again = questions()
    assert all(again[name].digest == query.digest for name, query in QUESTIONS.items())


def test_an_answer_is_the_same_when_asked_again() -> None:
    cohort = patients(incomplete=True)
    for query in QUESTIONS.values():
        first, second = numbers_of(query.answer(cohort)), numbers_of(query.answer(cohort))
        np.testing.assert_array_equal(first, second)


# Order


@settings(max_examples=40)
@given(choice=choices, seed=st.integers(0, 2**32))
def test_row_order_and_center_names_do_not_matter(choice: Choice, seed: int) -> None:
    rng = np.random.default_rng(seed)
    cohort = patients(choice.incomplete)
    rows = rng.permutation(PATIENTS)
    shuffled = Cohort(
        cohort.covariates[rows], cohort.time[rows], cohort.event[rows], cohort.number[rows]
    )
    parts = list(split(shuffled, rng.integers(0, 5, PATIENTS), 5).values())
    names = rng.permutation(list("vwxyz"))
    centers = dict(zip(names.tolist(), parts, strict=True))
    assert_same_fit(estimate(choice.plan, InProcess.from_cohorts(centers)), pooled(choice))


@settings(max_examples=30)
@given(choice=choices, order=st.permutations([0, 1, 2]))
def test_covariate_order_does_not_matter(choice: Choice, order: list[int]) -> None:
    cohort = patients(choice.incomplete)
    turned = Cohort(cohort.covariates[:, order], cohort.time, cohort.event)
    found = estimate(choice.plan, InProcess.from_cohorts({"all": turned})).inference
    expected = pooled(choice).inference
    np.testing.assert_allclose(
        found.coefficients, expected.coefficients[order], rtol=1e-9, atol=1e-9
    )
    np.testing.assert_allclose(
        found.covariance, expected.covariance[np.ix_(order, order)], rtol=1e-9, atol=1e-12
    )


# Weight and scale


@settings(max_examples=30)
@given(choice=choices, times=st.sampled_from([2, 3]))
def test_doubling_every_patient_halves_the_variance_and_moves_nothing_else(
    choice: Choice, times: int
) -> None:
    # Copies are ties. Efron's way tells them from one patient, as it does in Cox's model.
    assume(choice.link != "log" or choice.width is not None)
    choice = Choice(**{**vars(choice), "ridge": 0.0})
    cohort = patients(choice.incomplete)
    copies = {
        f"copy {k}": Cohort(cohort.covariates, cohort.time, cohort.event, cohort.number)
        for k in range(times)
    }
    found, expected = estimate(choice.plan, InProcess.from_cohorts(copies)), pooled(choice)
    np.testing.assert_allclose(
        found.inference.coefficients, expected.inference.coefficients, rtol=1e-9, atol=1e-9
    )
    # The decrement doubles too, so the search may stop a step later: seven digits of errors.
    np.testing.assert_allclose(
        found.inference.standard_errors,
        expected.inference.standard_errors / np.sqrt(times),
        rtol=1e-7,
    )
    np.testing.assert_allclose(found.alpha, expected.alpha, rtol=1e-9, atol=1e-9)
    assert found.log_likelihood == pytest.approx(times * expected.log_likelihood, rel=1e-11)


@settings(max_examples=60)
@given(
    choice=choices,
    column=st.sampled_from([0, 1, 2]),
    factor=st.sampled_from([2.0**-30, -(2.0**-3), 1.0, -1.0, 10.0, 2.0**30]),
    # Whole multiples of 2⁻²⁰ plus a million are exact: only the fit itself may lose digits.
    shift=st.sampled_from([0.0, -7.5, 2.0**20, -1e6]),
)
def test_scale_and_origin_of_a_covariate_change_its_coefficient_and_nothing_else(
    choice: Choice, column: int, factor: float, shift: float
) -> None:
    choice = Choice(**{**vars(choice), "ridge": 0.0})
    cohort = patients(choice.incomplete)
    rounded = np.round(cohort.covariates * 2.0**20) / 2.0**20
    base = Cohort(rounded, cohort.time, cohort.event)
    moved = rounded.copy()
    moved[:, column] = (moved[:, column] + shift) * factor
    expected = estimate(choice.plan, InProcess.from_cohorts({"all": base}))
    found = estimate(
        choice.plan, InProcess.from_cohorts({"all": Cohort(moved, cohort.time, cohort.event)})
    )
    scale = np.where(np.arange(3) == column, factor, 1.0)
    np.testing.assert_allclose(
        found.inference.coefficients * scale,
        expected.inference.coefficients,
        rtol=1e-8,
        atol=1e-9,
    )
    np.testing.assert_allclose(
        found.inference.standard_errors * np.abs(scale),
        expected.inference.standard_errors,
        rtol=1e-8,
    )
    assert found.log_likelihood == pytest.approx(expected.log_likelihood, rel=1e-11)
    # At x = 0 as given the baseline lies elsewhere, by the coefficient times the shift.
    lower = expected.inference.coefficients[column] * shift
    np.testing.assert_allclose(
        found.alpha, expected.alpha - lower, rtol=1e-8, atol=1e-8 * max(1.0, abs(shift))
    )


# Tables


@pytest.mark.parametrize(
    "solver", [{"method": "newton"}, {"method": "adam", "steps": 30, "batch_size": 20}]
)
@settings(max_examples=10)
@given(parts=splits())
@pytest.mark.filterwarnings("ignore::fedcox.errors.NotConvergedWarning")
@pytest.mark.filterwarnings("ignore::fedcox.errors.FilledCellsWarning")
def test_a_table_with_a_center_column_gives_the_fit_of_the_whole_table(
    solver: dict[str, Any], parts: tuple[IntArray, int]
) -> None:
    study = Study(
        outcome={"time": "time", "event": "event"},
        covariates=["a", "b", "c"],
        grid={"width": 20},
        model={"missing": "mean"},
        solver=solver,
    )
    cohort = patients(incomplete=True)
    frame = pd.DataFrame(cohort.covariates, columns=["a", "b", "c"])
    frame = frame.assign(time=cohort.time, event=cohort.event.astype(int), center=parts[0])
    found = fit(study, InProcess.from_frame(study, frame, center="center"))
    expected = fit(study, InProcess.from_frame(study, frame))
    for column in ("coef", "se(coef)", "p"):
        np.testing.assert_allclose(
            found.summary[column], expected.summary[column], rtol=1e-9, atol=1e-9
        )
    assert found.concordance == expected.concordance
    assert found.log_likelihood == pytest.approx(expected.log_likelihood, rel=1e-11)
    by_name = {str(name): part for name, part in frame.groupby("center")}
    apart = fit(study, InProcess.from_frame(study, by_name))
    if solver["method"] == "newton":  # batches follow the patients' numbers, here by center
        np.testing.assert_allclose(
            apart.summary["coef"], expected.summary["coef"], rtol=1e-9, atol=1e-9
        )
