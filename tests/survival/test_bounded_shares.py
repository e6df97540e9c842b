"""What one patient adds to a noised sum: never longer than the bound, and right on average."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedcox.survival.bounded_rows import (
    event_rows,
    moment_bound,
    moment_rows,
    product_rows,
    shortened,
    square_of,
    turn,
)
from fedcox.survival.bounded_shares import (
    ACROSS,
    LEFT_OUT,
    MOST_LEFT_OUT,
    ScoreMetric,
    information_bound,
    information_rows,
    score_bound,
    score_rows,
)
from fedcox.survival.cohort import Cohort, FloatArray, IntArray
from fedcox.survival.derivatives import Detail
from fedcox.survival.link import Log
from fedcox.survival.preparation import prepare_placed
from fedcox.survival.scaling import Scaling
from fedcox.survival.time_at_risk import TimeAtRisk
from tests.problems import simulated

PIECES, COLUMNS = 4, 3
#: A reach at which rules of weight and watch do nothing.
FAR = 1e9
#: From nothing to where squares of squares still hold.
LARGE = st.sampled_from([0.0, 1e-300, -1e-8, 0.3, -1.0, 2.0, 50.0, -800.0, 1e9, -1e60])
#: To the ends of what a double holds.
EXTREME = LARGE | st.sampled_from([1e150, -1e300, 1.7e308])
USUAL = st.floats(-3.0, 3.0, allow_subnormal=False)


class Patients(NamedTuple):
    covariates: FloatArray
    placed: TimeAtRisk

    def rows(self, chosen: IntArray) -> Patients:
        return Patients(self.covariates[chosen], self.placed.rows(chosen))


def metric(seed: int = 0, pieces: int = PIECES, columns: int = COLUMNS) -> ScoreMetric:
    rng = np.random.default_rng(seed)
    mixed = rng.normal(size=(columns, columns))
    return ScoreMetric(
        rng.uniform(20.0, 200.0, pieces),
        rng.normal(0.0, 0.3, (pieces, columns)),
        0.05 * (mixed @ mixed.T + np.eye(columns)),
    )


METRIC = metric()
POINT = np.array([-1.5, -0.5, 0.0, -1.0]), np.array([0.4, -0.3, 0.2])


@st.composite
def patients(draw: st.DrawFn, elements: st.SearchStrategy[float] = LARGE) -> Patients:
    """Also those with no time at all, an event in the last piece, and beyond the horizon."""
    count = draw(st.integers(1, 6))
    covariates = draw(arrays(np.float64, (count, COLUMNS), elements=elements))
    passed = draw(arrays(np.int64, count, elements=st.integers(0, PIECES)))
    event = draw(arrays(np.bool_, count)) & (passed < PIECES)
    part = draw(arrays(np.float64, count, elements=st.sampled_from([0.0, 1e-9, 0.5, 1.0])))
    return Patients(covariates, TimeAtRisk(passed, event, np.where(passed < PIECES, part, 0.0)))


def lengths(rows: FloatArray) -> FloatArray:
    return np.asarray(np.linalg.norm(rows, axis=1))


def unit_parts(covariates: FloatArray, of: ScoreMetric = METRIC) -> FloatArray:
    """The part of one event in each piece, without a weight: (patients, pieces, numbers)."""
    away = (covariates[:, None, :] - of.means) @ of.whitening.T
    own = np.broadcast_to(np.diag(of.events**-0.5), (len(covariates), PIECES, PIECES))
    return np.concatenate([own, away], axis=2)


@given(among=patients(EXTREME), kinds=arrays(np.bool_, COLUMNS))
@settings(max_examples=60)
def test_nobody_adds_more_to_means_and_squares_than_the_bound(
    among: Patients, kinds: np.ndarray[tuple[int], np.dtype[np.bool_]]
) -> None:
    """Categories: every patient has one level at most of each, here of one category."""
    covariates = among.covariates.copy()
    levels = np.flatnonzero(~kinds)
    covariates[:, levels] = 0.0
    if levels.size:
        covariates[np.arange(len(covariates)), levels[among.placed.passed % levels.size]] = 1.0
    rows = moment_rows(covariates, kinds)
    bound = moment_bound(int(kinds.sum()), int(levels.size > 0))
    assert lengths(rows).max() <= bound * (1 + 1e-9)


def test_a_patient_at_the_ends_of_every_range_is_as_long_as_the_bound_of_moments() -> None:
    """So the noise is no larger than it must be."""
    row = moment_rows(np.array([[1.0, -7.0, 0.0, 1.0]]), np.array([True, True, False, False]))
    assert lengths(row).item() == pytest.approx(moment_bound(2, 1), rel=1e-12)


CAPS = st.sampled_from([1e-3, 1.0, 2.4, 1e3])


@given(among=patients(), cap=CAPS)
@settings(max_examples=120)
def test_nobody_adds_more_to_products_and_event_moments_than_the_bound(
    among: Patients, cap: float
) -> None:
    assert lengths(product_rows(among.covariates, cap)).max() <= cap**2 * (1 + 1e-9)
    rows = event_rows(among.covariates, among.placed, PIECES, cap)
    assert lengths(rows).max() <= cap * (1 + 1e-9)
    assert not rows[~among.placed.event].any(), "who has no event adds nothing"


def test_patients_at_the_cap_are_as_long_as_the_bound() -> None:
    """So the noise is no larger than it must be."""
    placed = TimeAtRisk(np.array([1]), np.array([True]), np.array([0.5]))
    z = np.array([[4.0, 0.0]])
    assert lengths(event_rows(z, placed, PIECES, 4.0)).item() == pytest.approx(4.0, rel=1e-12)
    z = np.array([[math.sqrt(15.0), 0.0]])
    assert lengths(product_rows(z, 4.0)).item() == pytest.approx(16.0, rel=1e-12)


def test_sums_of_products_are_those_of_a_weighted_design_matrix() -> None:
    x = np.random.default_rng(0).normal(size=(50, COLUMNS))
    y = np.column_stack([np.ones(50), x])
    weight = np.minimum(1.0, 1.7 / np.linalg.norm(y, axis=1)) ** 2
    assert 0 < np.count_nonzero(weight < 1) < weight.size
    square = square_of(product_rows(x, 1.7).sum(axis=0))
    np.testing.assert_allclose(square, (y.T * weight) @ y, rtol=1e-12, atol=1e-12)


def test_event_moments_are_the_sums_of_those_with_the_event_in_each_piece() -> None:
    rng = np.random.default_rng(0)
    x, passed = rng.normal(size=(50, COLUMNS)), rng.integers(0, PIECES + 1, 50)
    placed = TimeAtRisk(
        passed, (passed < 3) & (rng.random(50) < 0.7), np.where(passed < PIECES, 0.5, 0.0)
    )
    found = event_rows(x, placed, PIECES, FAR).sum(axis=0).reshape(PIECES, COLUMNS)
    for piece in range(PIECES):
        due = x[placed.event & (passed == piece)].sum(axis=0)
        np.testing.assert_allclose(found[piece], due, rtol=1e-12, atol=1e-12)


@given(
    among=patients(EXTREME),
    alpha=arrays(np.float64, PIECES, elements=EXTREME),
    beta=arrays(np.float64, COLUMNS, elements=EXTREME),
    reach=st.sampled_from([1e-6, 0.2, 5.0]),
    cap=st.sampled_from([1e-6, 0.3, 5.0]),
)
@settings(max_examples=150)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # what overflows counts for nothing
def test_nobody_adds_more_to_score_and_information_than_the_bound_wherever_they_are_asked(
    among: Patients, alpha: FloatArray, beta: FloatArray, reach: float, cap: float
) -> None:
    asked = among.covariates, among.placed, (alpha, beta), METRIC, reach
    for rows, bound in (
        (score_rows(*asked), score_bound(reach)),
        (information_rows(*asked, cap), information_bound(cap)),
    ):
        cut = shortened(rows, bound)
        assert np.isfinite(cut).all()
        assert lengths(cut).max() <= bound


@given(among=patients(EXTREME), cap=st.sampled_from([1.0, 1e3]))
@settings(max_examples=60)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_events_at_the_ends_of_what_a_double_holds_count_for_nothing_or_the_bound(
    among: Patients, cap: float
) -> None:
    for rows, bound in (
        (product_rows(among.covariates, cap), cap**2),
        (event_rows(among.covariates, among.placed, PIECES, cap), cap),
    ):
        cut = shortened(rows, bound)
        assert np.isfinite(cut).all()
        assert lengths(cut).max() <= bound * (1 + 1e-12)


@given(among=patients(USUAL), reach=st.sampled_from([0.05, 0.2, 2.0]))
@settings(max_examples=100)
@pytest.mark.parametrize("happened", [True, False])
def test_weight_bounds_an_event_and_watch_bounds_the_time_at_risk(
    happened: bool, among: Patients, reach: float
) -> None:
    """Event and compensator apart: the rules alone see to it, without a cut."""
    placed = among.placed
    if happened:
        inside = placed.passed < PIECES
        where = (np.full(PIECES, -1e4), np.zeros(COLUMNS))  # no hazard, no compensator
        one = TimeAtRisk(placed.passed, inside, placed.part)
    else:
        one = TimeAtRisk(placed.passed, np.zeros_like(placed.event), placed.part)
        where = POINT[0] + 3.0, POINT[1]
    rows = score_rows(among.covariates, one, where, METRIC, reach)
    assert lengths(rows[:, :-2]).max() <= reach * (1 + 1e-9)
    assert np.abs(rows[:, -2]).max() <= LEFT_OUT * reach * (1 + 1e-9)
    assert np.abs(rows[:, -1]).max() <= LEFT_OUT * MOST_LEFT_OUT * reach * (1 + 1e-9)


@given(among=patients(USUAL), cap=st.sampled_from([0.05, 0.3, 2.0]))
@settings(max_examples=100)
def test_rules_alone_bound_the_information(among: Patients, cap: float) -> None:
    fast = POINT[0] + 3.0, POINT[1]
    rows = information_rows(among.covariates, among.placed, fast, METRIC, 2.0, cap)
    assert lengths(rows).max() <= information_bound(cap) * (1 + 1e-9)


@given(among=patients(LARGE), reach=st.sampled_from([0.1, 5.0]))
@settings(max_examples=60)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@example(
    Patients(
        np.array([[0.3, -800.0, 2.0], [0.3, -1.0, 2.0]]),
        TimeAtRisk(np.array([3, 4]), np.array([True, False]), np.array([0.5, 0.0])),
    ),
    0.1,
)
def test_a_row_does_not_depend_on_who_else_is_there(among: Patients, reach: float) -> None:
    everybody = _all_rows(among, POINT, METRIC, reach)
    for one in range(len(among.covariates)):
        single = _all_rows(among.rows(np.array([one])), POINT, METRIC, reach)
        for together, alone in zip(everybody, single, strict=True):
            np.testing.assert_array_equal(alone[0], together[one])


def _all_rows(
    among: Patients, where: tuple[FloatArray, FloatArray], own: ScoreMetric, reach: float
) -> list[FloatArray]:
    x, placed = among
    return [
        score_rows(x, placed, where, own, reach),
        information_rows(x, placed, where, own, reach, 0.7 * reach),
        event_rows(x, placed, own.events.size, 2.0),
        product_rows(x, 2.0),
    ]


def test_no_row_of_many_columns_depends_to_the_last_bit_on_the_others() -> None:
    """Else one patient more would move the others' rounded rows, too."""
    rng, columns, pieces = np.random.default_rng(2), 37, 11
    x, passed = rng.normal(size=(400, columns)), rng.integers(0, pieces + 1, 400)
    placed = TimeAtRisk(passed, rng.random(400) < 0.5, rng.random(400) * (passed < pieces))
    where = rng.normal(-1.0, 0.5, pieces), rng.normal(0.0, 0.2, columns)
    own, all_patients = metric(3, pieces, columns), Patients(x, placed)
    together = _all_rows(all_patients, where, own, 2.0)
    for size in (1, 2, 3, 5, 8, 31, 399):
        some = rng.choice(400, size, replace=False)
        for found, due in zip(
            _all_rows(all_patients.rows(some), where, own, 2.0), together, strict=True
        ):
            np.testing.assert_array_equal(found, due[some])


@given(among=patients(USUAL), reach=st.sampled_from([0.1, 0.4, 50.0]))
@settings(max_examples=150)
def test_weight_and_watch_do_not_look_at_whether_the_event_happens(
    among: Patients, reach: float
) -> None:
    """One patient with the event and one without, all else equal: they differ by the event."""
    x, placed = among
    inside = placed.passed < PIECES
    with_event = TimeAtRisk(placed.passed, inside, placed.part)
    without = TimeAtRisk(placed.passed, np.zeros_like(inside), placed.part)
    fast = POINT[0] + 1.5, POINT[1]
    happened = score_rows(x, with_event, fast, METRIC, reach)
    censored = score_rows(x, without, fast, METRIC, reach)
    np.testing.assert_array_equal(happened[:, -1], censored[:, -1])
    unit = unit_parts(x)
    weight = np.minimum(1.0, reach / np.linalg.norm(unit, axis=2))
    longest = _longest(x, placed, fast, weight, unit)
    for row in np.flatnonzero(inside & (np.abs(longest - reach) > 1e-9 * reach)):
        k = placed.passed[row]
        due = weight[row, k] * unit[row, k] if longest[row] <= reach else 0.0 * unit[row, k]
        found = happened[row, :-2] - censored[row, :-2]
        np.testing.assert_allclose(found, due, rtol=1e-9, atol=1e-11 * (1 + reach))


def _longest(
    x: FloatArray,
    placed: TimeAtRisk,
    where: tuple[FloatArray, FloatArray],
    weight: FloatArray,
    unit: FloatArray,
) -> FloatArray:
    """How long the compensator of each patient ever is, by small steps through its time."""
    lived = _lived(placed)
    gone = weight * np.exp(where[0] + (x @ where[1])[:, None]) * lived
    longest = np.zeros(len(x))
    here = np.zeros((len(x), unit.shape[2]))
    for piece in range(PIECES):
        for part in np.linspace(0.0, 1.0, 41)[1:]:
            there = here + part * gone[:, piece, None] * unit[:, piece]
            longest = np.maximum(longest, np.linalg.norm(there, axis=1))
        here = here + gone[:, piece, None] * unit[:, piece]
    return longest


def _lived(placed: TimeAtRisk) -> FloatArray:
    piece = np.arange(PIECES)
    lived = np.where(piece < placed.passed[:, None], 1.0, 0.0)
    lived += np.where(piece == placed.passed[:, None], placed.part[:, None], 0.0)
    return np.asarray(lived)


def test_without_bounds_the_rows_add_up_to_the_score_of_the_model() -> None:
    """By the kernel that fits without noise use, in the metric."""
    cohort = simulated(300, COLUMNS, seed=5)
    rng = np.random.default_rng(6)
    passed = rng.integers(0, PIECES + 1, 300)
    event = cohort.event & (passed < PIECES)
    placed = TimeAtRisk(passed, event, rng.random(300) * (passed < PIECES))
    rows = score_rows(cohort.covariates, placed, POINT, METRIC, FAR)
    assert not rows[:, -2:].any(), "nothing is left out"
    own = Cohort(cohort.covariates, cohort.time, event)
    prepared = prepare_placed(own, placed, PIECES, Scaling.none(COLUMNS), Log())
    loss = prepared.derivatives(Log(), *POINT, Detail.GRADIENT)
    score = -np.append(loss.alpha, loss.beta)
    in_metric = rows[:, :-2].sum(axis=0)
    # A step is the transpose of the metric: v · (A s) = (Aᵀ v) · s for every v.
    for v in np.eye(PIECES + COLUMNS):
        assert v @ in_metric == pytest.approx(METRIC.step(v) @ score, rel=1e-9, abs=1e-9)


def test_without_bounds_the_rows_are_the_slope_of_the_log_likelihood() -> None:
    """By finite differences along the steps of the metric."""
    rng = np.random.default_rng(8)
    x, passed = rng.normal(size=(80, COLUMNS)), rng.integers(0, PIECES + 1, 80)
    part = rng.random(80) * (passed < PIECES)
    placed = TimeAtRisk(passed, (passed < PIECES) & (rng.random(80) < 0.5), part)
    lived = _lived(placed)

    def log_likelihood(at: FloatArray) -> float:
        log_hazard = at[:PIECES] + (x @ at[PIECES:])[:, None]
        happened = np.flatnonzero(placed.event)
        events = float(log_hazard[happened, passed[happened]].sum())
        return events - float((lived * np.exp(log_hazard)).sum())

    found = score_rows(x, placed, POINT, METRIC, FAR)[:, :-2].sum(axis=0)
    here = np.concatenate(POINT)
    for number, v in enumerate(np.eye(PIECES + COLUMNS)):
        step = 1e-5 * METRIC.step(v)
        slope = (log_likelihood(here + step) - log_likelihood(here - step)) / 2e-5
        assert found[number] == pytest.approx(slope, rel=1e-6, abs=1e-6)


@given(
    seed=st.integers(0, 1000),
    step=arrays(np.float64, PIECES + COLUMNS, elements=st.floats(-5.0, 5.0)),
)
@settings(max_examples=50)
def test_the_score_of_a_step_is_the_score_that_asks_for_it(seed: int, step: FloatArray) -> None:
    own = metric(seed)
    np.testing.assert_allclose(own.step(own.score_of(step)), step, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(own.score_of(own.step(step)), step, rtol=1e-8, atol=1e-8)


# Right on average.

TRUTH = np.array([-1.0, -0.6, -0.2, -0.4]), np.array([0.5, -0.4, 0.3])


def from_the_model(count: int, seed: int) -> Patients:
    """Patients of a piecewise constant hazard, censored at random, whose truth is known."""
    rng = np.random.default_rng(seed)
    x = np.column_stack(
        [rng.normal(size=count), rng.exponential(1.0, count) - 1.0, rng.random(count) < 0.2]
    ).astype(np.float64)
    hazard = np.exp(TRUTH[0] + (x @ TRUTH[1])[:, None])
    before = np.cumsum(hazard, axis=1) - hazard
    due = rng.exponential(1.0, count)  # until when in hazard
    piece = (before <= due[:, None]).sum(axis=1) - 1
    row = np.arange(count)
    happens = piece + (due - before[row, piece]) / hazard[row, piece]
    censored = rng.uniform(0.2, 6.0, count)
    time = np.minimum(np.minimum(happens, censored), float(PIECES))
    event = (happens <= censored) & (happens < PIECES)
    passed = np.minimum(np.floor(time).astype(np.int64), PIECES)
    part = np.where(passed < PIECES, time - passed, 0.0)
    return Patients(x, TimeAtRisk(passed, event, part))


MANY = 200_000


@pytest.fixture(scope="module")
def many() -> Patients:
    return from_the_model(MANY, 1)


def information(of: Patients) -> tuple[ScoreMetric, float]:
    """The metric of these patients, and the length of a usual patient's score in it."""
    happened, passed = of.placed.event, of.placed.passed
    z, piece = of.covariates[happened], passed[happened]
    events = np.bincount(piece, minlength=PIECES).astype(np.float64)
    means = np.array([z[piece == k].mean(axis=0) for k in range(PIECES)])
    total, away = float(events.sum()), z - means[piece]
    values, directions = np.linalg.eigh(away.T @ away / total)
    whitening = (directions / np.sqrt(values * total)) @ directions.T
    return ScoreMetric(events, means, whitening), math.sqrt((PIECES + COLUMNS) / total)


def truth_rows(of: Patients, reach: float) -> FloatArray:
    """At the truth; reach in usual scores."""
    own, usual = information(of)
    return score_rows(*of, TRUTH, own, reach * usual)


def far_from_zero(rows: FloatArray) -> FloatArray:
    """The mean of each number, in its standard errors."""
    return np.asarray(rows.mean(axis=0) / (rows.std(axis=0) / math.sqrt(len(rows))))


def test_at_the_truth_the_bounded_score_is_zero_on_average(many: Patients) -> None:
    rows = truth_rows(many, 1.0)
    assert np.mean(rows[:, -1] > 0) >= 0.2, "weight or watch bind many"
    assert np.abs(far_from_zero(rows[:, :-2])).max() <= 4.0


def test_at_the_truth_as_many_events_are_left_out_as_are_expected(many: Patients) -> None:
    for reach in (0.5, 1.0, 2.0):
        rows = truth_rows(many, reach)
        assert np.mean(rows[:, -1] > 0) > 0.01
        difference = rows[:, -2] - rows[:, -1]
        assert abs(float(far_from_zero(difference[:, None]).item())) <= 4.0


def test_where_the_model_is_wrong_far_out_fewer_events_are_left_out_than_expected(
    many: Patients,
) -> None:
    """Patients far out, whose risk the model takes for high, never have the event."""
    x, placed = many
    far = x[:, 0] > 2.0
    lucky = Patients(x, TimeAtRisk(placed.passed, placed.event & ~far, placed.part))
    rows = truth_rows(lucky, 2.0)
    assert far_from_zero((rows[:, -2] - rows[:, -1])[:, None]).item() < -6.0


def test_at_the_bounds_of_a_fit_no_row_of_the_model_is_cut(many: Patients) -> None:
    """With fewer pieces than columns ten usual scores are less than a fit reaches."""
    own, usual = information(many)
    rows = truth_rows(many, 4.0)
    assert np.mean(rows[:, -1] > 0) > 1e-4
    np.testing.assert_allclose(
        shortened(rows, score_bound(4.0 * usual)), rows, rtol=1e-9, atol=0.0
    )
    cap = math.sqrt(5.0) * usual
    rows = information_rows(*many, TRUTH, own, 4.0 * usual, cap)
    np.testing.assert_allclose(
        shortened(rows, information_bound(cap)), rows, rtol=1e-9, atol=0.0
    )


def test_the_information_is_that_of_the_kernel_without_noise() -> None:
    """On the coefficients, and on them and the pieces: in the metric, and by finite means."""
    cohort = simulated(300, COLUMNS, seed=5)
    rng = np.random.default_rng(6)
    passed = rng.integers(0, PIECES + 1, 300)
    placed = TimeAtRisk(passed, np.zeros(300, np.bool_), rng.random(300) * (passed < PIECES))
    x, cap = cohort.covariates, 1e3
    rows = information_rows(x, placed, (POINT[0] - 4.0, POINT[1]), METRIC, FAR, cap).sum(axis=0)
    weight = np.exp(POINT[0] - 4.0 + (x @ POINT[1])[:, None]) * _lived(placed)
    away = turn(x, METRIC.whitening)[:, None, :] - METRIC.whitened_means
    triangle, across = np.split(rows, [COLUMNS * (COLUMNS + 1) // 2])
    due = np.einsum("nk,nki,nkj->ij", weight, away, away)
    np.testing.assert_allclose(square_of(triangle), due, rtol=1e-10, atol=1e-12)
    due = np.einsum("nk,nki->ki", weight, away)
    found = across.reshape(PIECES, COLUMNS) / (ACROSS * cap)
    np.testing.assert_allclose(found, due, rtol=1e-10, atol=1e-12)


def test_an_event_counted_after_the_watch_would_be_seen(many: Patients) -> None:
    """A fault on purpose: the time at risk ends, the event counts all the same."""
    rows = truth_rows(many, 1.0)[:, :-2]
    x, placed = many
    event = np.flatnonzero(placed.event)
    nobody = TimeAtRisk(placed.passed, np.zeros_like(placed.event), placed.part)
    own, usual = information(many)
    without = score_rows(x, nobody, TRUTH, own, usual)[:, :-2]
    lost = event[(rows[event] == without[event]).all(axis=1)]
    assert lost.size > 0.005 * MANY
    unit = unit_parts(x[lost], own)[np.arange(lost.size), placed.passed[lost]]
    rows[lost] += np.minimum(1.0, usual / np.linalg.norm(unit, axis=1))[:, None] * unit
    assert np.abs(far_from_zero(rows)).max() > 8.0


def test_a_weight_that_looks_at_the_outcome_would_be_seen(many: Patients) -> None:
    """A fault on purpose: finished rows are cut, and those with an event are longer."""
    free = truth_rows(many, FAR)[:, :-2]
    assert np.abs(far_from_zero(free)).max() <= 4.0
    assert np.abs(far_from_zero(shortened(free, information(many)[1]))).max() > 8.0
