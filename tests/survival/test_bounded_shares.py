"""What one patient adds to a noised sum: never longer than the bound, and right on average."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedcox.survival.bounded_shares import (
    BOUND,
    EventProducts,
    ScoreMetric,
    event_bound,
    event_rows,
    moment_bound,
    moment_rows,
    score_bound,
    score_rows,
)
from fedcox.survival.clipping import shortened
from fedcox.survival.cohort import Cohort, FloatArray, IntArray
from fedcox.survival.derivatives import Detail
from fedcox.survival.link import Log
from fedcox.survival.preparation import prepare_placed
from fedcox.survival.scaling import Scaling
from fedcox.survival.time_grid import TimeAtRisk
from tests.problems import simulated

PIECES, COLUMNS = 4, 3
#: Jump and watch at which rules of weight and watch do nothing.
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
    heights = np.linspace(-0.9, 0.8, pieces)
    return ScoreMetric(
        rng.uniform(20.0, 200.0, pieces),
        heights,
        rng.normal(0.0, 0.3, columns),
        rng.normal(0.0, 0.2, columns),
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
    means = of.center + of.heights[:, None] * of.drift
    away = (covariates[:, None, :] - means) @ of.whitening.T
    own = np.broadcast_to(np.diag(of.events**-0.5), (len(covariates), PIECES, PIECES))
    return np.concatenate([own, away], axis=2)


@given(among=patients(EXTREME), kinds=arrays(np.bool_, COLUMNS))
@settings(max_examples=60, deadline=None)
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


HEIGHTS = st.sampled_from([-1.0, -0.5, 0.0, 1.0])


@given(
    among=patients(),
    heights=arrays(np.float64, PIECES, elements=HEIGHTS),
    cap=st.sampled_from([1e-3, 1.0, 2.4, 1e3]),
)
@settings(max_examples=120, deadline=None)
def test_nobody_adds_more_to_event_products_than_the_bound(
    among: Patients, heights: FloatArray, cap: float
) -> None:
    rows = event_rows(among.covariates, among.placed, heights, cap)
    assert lengths(rows).max() <= event_bound(cap) * (1 + 1e-9)
    assert not rows[~among.placed.event].any(), "who has no event adds nothing"


def test_an_event_at_the_cap_comes_near_the_bound_of_products() -> None:
    """So the noise is hardly larger than it must be."""
    placed = TimeAtRisk(np.array([1]), np.array([True]), np.array([0.5]))
    z = np.array([[math.sqrt(15.0), 0.0]])
    row = event_rows(z, placed, np.array([0.0, 1.0]), 4.0)
    assert lengths(row).item() == pytest.approx(event_bound(4.0), rel=2e-3)


def test_sums_of_event_products_are_those_of_a_weighted_design_matrix() -> None:
    rng = np.random.default_rng(0)
    x, passed = rng.normal(size=(50, COLUMNS)), rng.integers(0, PIECES + 1, 50)
    placed = TimeAtRisk(passed, passed < 3, np.where(passed < PIECES, 0.5, 0.0))
    rows = event_rows(x, placed, METRIC.heights, 1.7)
    found = EventProducts.of(rows.sum(axis=0), COLUMNS)
    y = np.column_stack([np.ones(50), x])[placed.event]
    weight = np.minimum(1.0, 1.7 / np.linalg.norm(y, axis=1)) ** 2
    assert 0 < np.count_nonzero(weight < 1) < weight.size
    np.testing.assert_allclose(found.square, (y.T * weight) @ y, rtol=1e-12)
    tall = weight * METRIC.heights[passed[placed.event]]
    np.testing.assert_allclose(found.by_height, tall @ y[:, 1:], rtol=1e-12, atol=1e-12)


@given(
    among=patients(EXTREME),
    alpha=arrays(np.float64, PIECES, elements=EXTREME),
    beta=arrays(np.float64, COLUMNS, elements=EXTREME),
    jump=st.sampled_from([1e-6, 0.2, 5.0]),
    watch=st.sampled_from([1e-6, 0.3, 5.0]),
)
@settings(max_examples=150, deadline=None)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # what overflows counts for nothing
def test_nobody_adds_more_to_a_score_than_the_bound_wherever_it_is_asked(
    among: Patients, alpha: FloatArray, beta: FloatArray, jump: float, watch: float
) -> None:
    rows = score_rows(among.covariates, among.placed, (alpha, beta), METRIC, jump, watch)
    bound = score_bound(jump, watch)
    cut = shortened(rows, bound)
    assert np.isfinite(cut).all()
    assert lengths(cut).max() <= bound


@given(among=patients(EXTREME), cap=st.sampled_from([1.0, 1e3]))
@settings(max_examples=60, deadline=None)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_events_at_the_ends_of_what_a_double_holds_count_for_nothing_or_the_bound(
    among: Patients, cap: float
) -> None:
    rows = event_rows(among.covariates, among.placed, METRIC.heights, cap)
    cut = shortened(rows, event_bound(cap))
    assert np.isfinite(cut).all()
    assert lengths(cut).max() <= event_bound(cap)


@given(among=patients(USUAL), jump=st.sampled_from([0.05, 0.2, 2.0]))
@settings(max_examples=100, deadline=None)
@pytest.mark.parametrize("happened", [True, False])
def test_weight_bounds_an_event_and_watch_bounds_the_time_at_risk(
    happened: bool, among: Patients, jump: float
) -> None:
    """Event and compensator apart: the rules alone see to it, without a cut."""
    watch, placed = 1.5 * jump, among.placed
    if happened:
        inside = placed.passed < PIECES
        nothing = (np.full(PIECES, -1e4), np.zeros(COLUMNS))  # no hazard, no compensator
        event = TimeAtRisk(placed.passed, inside, placed.part)
        rows = score_rows(among.covariates, event, nothing, METRIC, jump, watch)
        assert lengths(rows[:, :-1]).max() <= jump * (1 + 1e-9)
    else:
        alone = TimeAtRisk(placed.passed, np.zeros_like(placed.event), placed.part)
        fast = POINT[0] + 3.0, POINT[1]
        rows = score_rows(among.covariates, alone, fast, METRIC, jump, watch)
        assert lengths(rows[:, :-1]).max() <= watch * (1 + 1e-9)


@given(among=patients(LARGE), jump=st.sampled_from([0.1, 5.0]))
@settings(max_examples=60, deadline=None)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@example(
    Patients(
        np.array([[0.3, -800.0, 2.0], [0.3, -1.0, 2.0]]),
        TimeAtRisk(np.array([3, 4]), np.array([True, False]), np.array([0.5, 0.0])),
    ),
    0.1,
)
def test_a_row_does_not_depend_on_who_else_is_there(among: Patients, jump: float) -> None:
    def rows(chosen: IntArray) -> list[FloatArray]:
        x, placed = among.rows(chosen)
        score = score_rows(x, placed, POINT, METRIC, jump, 1.2 * jump)
        return [score, event_rows(x, placed, METRIC.heights, 2.0)]

    everybody = rows(np.arange(len(among.covariates)))
    for one in range(len(among.covariates)):
        for together, alone in zip(everybody, rows(np.array([one])), strict=True):
            np.testing.assert_array_equal(alone[0], together[one])


def test_no_row_of_many_columns_depends_to_the_last_bit_on_the_others() -> None:
    """Else one patient more would move the others' rounded rows, too."""
    rng, columns, pieces = np.random.default_rng(2), 37, 11
    x, passed = rng.normal(size=(400, columns)), rng.integers(0, pieces + 1, 400)
    placed = TimeAtRisk(passed, rng.random(400) < 0.5, rng.random(400) * (passed < pieces))
    where = rng.normal(-1.0, 0.5, pieces), rng.normal(0.0, 0.2, columns)
    own = metric(3, pieces, columns)

    def rows(chosen: IntArray) -> FloatArray:
        return score_rows(x[chosen], placed.rows(chosen), where, own, 2.0, 3.0)

    together = rows(np.arange(400))
    for size in (1, 2, 3, 5, 8, 31, 399):
        some = rng.choice(400, size, replace=False)
        np.testing.assert_array_equal(rows(some), together[some])


@given(among=patients(USUAL), jump=st.sampled_from([0.1, 0.4, 50.0]))
@settings(max_examples=150, deadline=None)
def test_weight_and_watch_do_not_look_at_whether_the_event_happens(
    among: Patients, jump: float
) -> None:
    """One patient with the event and one without, all else equal: they differ by the event."""
    x, placed = among
    inside = placed.passed < PIECES
    with_event = TimeAtRisk(placed.passed, inside, placed.part)
    without = TimeAtRisk(placed.passed, np.zeros_like(inside), placed.part)
    fast = POINT[0] + 1.5, POINT[1]
    watch = 1.3 * jump
    happened = score_rows(x, with_event, fast, METRIC, jump, watch)
    censored = score_rows(x, without, fast, METRIC, jump, watch)
    np.testing.assert_array_equal(happened[:, -1], censored[:, -1])
    unit = unit_parts(x)
    size = np.linalg.norm(unit, axis=2)
    weight = np.minimum(1.0, jump / size)
    piece = np.arange(PIECES)
    lived = np.where(piece < placed.passed[:, None], 1.0, 0.0)
    lived += np.where(piece == placed.passed[:, None], placed.part[:, None], 0.0)
    rate = np.exp(fast[0] + (x @ fast[1])[:, None])
    spent = (weight * size * rate * lived).sum(axis=1)
    for row in np.flatnonzero(inside & (np.abs(spent - watch) > 1e-9 * watch)):
        k = placed.passed[row]
        due = weight[row, k] * unit[row, k] if spent[row] <= watch else np.zeros(unit.shape[2])
        found = happened[row, :-1] - censored[row, :-1]
        np.testing.assert_allclose(found, due, rtol=1e-9, atol=1e-11 * (1 + watch))


def test_without_bounds_the_rows_add_up_to_the_score_of_the_model() -> None:
    """By the kernel that fits without noise use, in the metric."""
    cohort = simulated(300, COLUMNS, seed=5)
    rng = np.random.default_rng(6)
    passed = rng.integers(0, PIECES + 1, 300)
    event = cohort.event & (passed < PIECES)
    placed = TimeAtRisk(passed, event, rng.random(300) * (passed < PIECES))
    rows = score_rows(cohort.covariates, placed, POINT, METRIC, FAR, FAR)
    assert not rows[:, -1].any(), "nobody is bound"
    own = Cohort(cohort.covariates, cohort.time, event)
    prepared = prepare_placed(own, placed, PIECES, Scaling.none(COLUMNS), Log())
    loss = prepared.derivatives(Log(), *POINT, Detail.GRADIENT)
    score = -np.append(loss.alpha, loss.beta)
    in_metric = rows[:, :-1].sum(axis=0)
    # A step is the transpose of the metric: v · (A s) = (Aᵀ v) · s for every v.
    for v in np.eye(PIECES + COLUMNS):
        assert v @ in_metric == pytest.approx(METRIC.step(v) @ score, rel=1e-9, abs=1e-9)


def test_without_bounds_the_rows_are_the_slope_of_the_log_likelihood() -> None:
    """By finite differences along the steps of the metric."""
    rng = np.random.default_rng(8)
    x, passed = rng.normal(size=(80, COLUMNS)), rng.integers(0, PIECES + 1, 80)
    part = rng.random(80) * (passed < PIECES)
    placed = TimeAtRisk(passed, (passed < PIECES) & (rng.random(80) < 0.5), part)
    lived = (np.arange(PIECES) < passed[:, None]).astype(np.float64)
    inside = np.flatnonzero(passed < PIECES)
    lived[inside, passed[inside]] = part[inside]

    def log_likelihood(at: FloatArray) -> float:
        log_hazard = at[:PIECES] + (x @ at[PIECES:])[:, None]
        happened = np.flatnonzero(placed.event)
        events = float(log_hazard[happened, passed[happened]].sum())
        return events - float((lived * np.exp(log_hazard)).sum())

    found = score_rows(x, placed, POINT, METRIC, FAR, FAR)[:, :-1].sum(axis=0)
    here = np.concatenate(POINT)
    for number, v in enumerate(np.eye(PIECES + COLUMNS)):
        step = 1e-5 * METRIC.step(v)
        slope = (log_likelihood(here + step) - log_likelihood(here - step)) / 2e-5
        assert found[number] == pytest.approx(slope, rel=1e-6, abs=1e-6)


@given(
    seed=st.integers(0, 1000),
    step=arrays(np.float64, PIECES + COLUMNS, elements=st.floats(-5.0, 5.0)),
)
@settings(max_examples=50, deadline=None)
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
    total = float(events.sum())
    heights = (2 * np.cumsum(events) - events) / total - 1
    heights -= heights @ events / total
    center, slant = z.mean(axis=0), float(events @ heights**2) / total
    drift = (z * heights[piece][:, None]).mean(axis=0) / slant
    square = z.T @ z / total - np.outer(center, center) - slant * np.outer(drift, drift)
    values, directions = np.linalg.eigh(square)
    whitening = (directions / np.sqrt(values * total)) @ directions.T
    usual = math.sqrt((PIECES + COLUMNS) / total)
    return ScoreMetric(events, heights, center, drift, whitening), usual


def truth_rows(of: Patients, jump: float, watch: float) -> FloatArray:
    """At the truth; jump and watch in usual scores."""
    own, usual = information(of)
    return score_rows(*of, TRUTH, own, jump * usual, watch * usual)


def far_from_zero(rows: FloatArray) -> FloatArray:
    """The mean of each number, in its standard errors."""
    return np.asarray(rows.mean(axis=0) / (rows.std(axis=0) / math.sqrt(len(rows))))


def test_at_the_truth_the_bounded_score_is_zero_on_average(many: Patients) -> None:
    rows = truth_rows(many, 1.0, 1.25)
    assert np.mean(rows[:, -1] > 0) >= 0.2, "weight or watch bind many"
    assert np.abs(far_from_zero(rows[:, :-1])).max() <= 4.0


def test_at_the_bounds_of_a_fit_no_row_of_the_model_is_cut(many: Patients) -> None:
    rows, (_, usual) = truth_rows(many, 2.4, 3.0), information(many)
    cut = shortened(rows, score_bound(2.4 * usual, 3.0 * usual))
    assert np.mean(rows[:, -1] > 0) > 0.01
    np.testing.assert_allclose(cut, rows, rtol=1e-9, atol=0.0)


def test_the_last_number_counts_who_is_bound(many: Patients) -> None:
    usual = information(many)[1]
    bound = truth_rows(many, 1.0, 1.25)[:, -1]
    assert set(np.unique(bound)) == {0.0, BOUND * usual}
    assert not truth_rows(many, FAR, FAR)[:, -1].any()


def test_an_event_counted_after_the_watch_would_be_seen(many: Patients) -> None:
    """A fault on purpose: the time at risk ends, the event counts all the same."""
    rows = truth_rows(many, 1.0, 1.25)[:, :-1]
    x, placed = many
    event = np.flatnonzero(placed.event)
    nobody = TimeAtRisk(placed.passed, np.zeros_like(placed.event), placed.part)
    own, usual = information(many)
    without = score_rows(x, nobody, TRUTH, own, usual, 1.25 * usual)[:, :-1]
    lost = event[(rows[event] == without[event]).all(axis=1)]
    assert lost.size > 0.005 * MANY
    unit = unit_parts(x[lost], own)[np.arange(lost.size), placed.passed[lost]]
    rows[lost] += np.minimum(1.0, usual / np.linalg.norm(unit, axis=1))[:, None] * unit
    assert np.abs(far_from_zero(rows)).max() > 8.0


def test_a_weight_that_looks_at_the_outcome_would_be_seen(many: Patients) -> None:
    """A fault on purpose: finished rows are cut, and those with an event are longer."""
    free = truth_rows(many, FAR, FAR)[:, :-1]
    assert np.abs(far_from_zero(free)).max() <= 4.0
    assert np.abs(far_from_zero(shortened(free, information(many)[1]))).max() > 8.0
