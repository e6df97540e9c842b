"""Sums over pieces against the rows of a Poisson regression, written out one by one."""

from __future__ import annotations

import numpy as np
import pytest

import fedcox.survival.piece_sums as piece_sums
from fedcox.survival.cohort import Cohort, FloatArray
from fedcox.survival.derivatives import Derivatives, Detail
from fedcox.survival.link import LINKS
from fedcox.survival.piece_sums import PieceSums
from fedcox.survival.scaling import Scaling
from fedcox.survival.time_at_risk import TimeAtRisk
from fedcox.survival.time_grid import Pieces
from fedcox.survival.weighted_events import WeightedEvents
from tests.problems import simulated

LOG = LINKS["log"]
COHORT = simulated(300, 3)
BETA = np.array([0.4, -0.3, 0.2])
PIECES = {
    "a few": Pieces(np.array([0.0, 10.0, 30.0, 55.0, 110.0, 200.0])),
    "one": Pieces(np.array([0.0, 200.0])),
    "from the middle on": Pieces(np.array([20.0, 40.0, 90.0])),
    "in units": Pieces(np.array([0.0, 4.0, 31.0, 90.0]), unit=1.0),
    "beyond everyone": Pieces(np.array([0.0, 50.0, 199.0, 500.0, 1000.0])),
    "every event time": Pieces(np.append(0.0, np.unique(COHORT.time[COHORT.event]))),
}


def rows(
    cohort: Cohort, pieces: Pieces, alpha: FloatArray, beta: FloatArray, scaling: Scaling
) -> tuple[float, FloatArray, FloatArray]:
    """Loss, gradient and Hessian, a patient and a piece at a time."""
    times, bounds = pieces.place(cohort.time, cohort.event)
    kept = cohort.covariates[:, scaling.keep]
    scaled = np.where(np.isnan(kept), 0.0, (kept - scaling.mean) / scaling.spread)
    size = alpha.size + beta.size
    loss, gradient, hessian = 0.0, np.zeros(size), np.zeros((size, size))
    for time, event, x in zip(times, cohort.event, scaled, strict=True):
        for k in range(alpha.size):
            low, high = bounds[k], bounds[k + 1]
            lived = (np.clip(time, low, high) - low) / (high - low)
            happened = event and (low < time <= high or (k == 0 and time <= low))
            row = np.concatenate([np.arange(alpha.size) == k, x])
            theta = alpha[k] + beta @ x
            loss += lived * np.exp(theta) - happened * theta
            gradient += (lived * np.exp(theta) - happened) * row
            hessian += lived * np.exp(theta) * np.outer(row, row)
    return loss, gradient, hessian


def ask(
    cohort: Cohort,
    pieces: Pieces,
    alpha: FloatArray,
    beta: FloatArray,
    detail: Detail,
    scaling: Scaling | None = None,
) -> Derivatives:
    placed = pieces.at_risk(cohort.time, cohort.event)
    scaling = scaling or Scaling.none(cohort.columns)
    return PieceSums(cohort, scaling, placed, pieces.intervals).derivatives(
        LOG, alpha, beta, detail
    )


def check(
    found: Derivatives,
    expected: tuple[float, FloatArray, FloatArray],
    detail: Detail,
    tolerance: float = 1e-11,
) -> None:
    loss, gradient, hessian = expected
    close = {"rtol": tolerance, "atol": tolerance * max(1.0, np.abs(hessian).max())}
    pieces = found.alpha.size
    assert found.loss == pytest.approx(loss, rel=1e-12)
    np.testing.assert_allclose(np.append(found.alpha, found.beta), gradient, **close)
    if detail is Detail.GRADIENT:
        assert found.curvature is None
        return
    assert found.curvature is not None
    alpha, cross, beta = found.curvature
    square = hessian[pieces:, pieces:]
    np.testing.assert_allclose(alpha, np.diag(hessian)[:pieces], **close)
    np.testing.assert_allclose(
        beta, np.diag(square) if detail is Detail.DIAGONAL else square, **close
    )
    if detail in (Detail.HESSIAN, Detail.INFORMATION):
        assert cross is not None
        np.testing.assert_allclose(cross, hessian[:pieces, pieces:], **close)
    else:
        assert cross is None


@pytest.fixture(params=["whole", "in small blocks"])
def blocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "in small blocks":
        monkeypatch.setattr(piece_sums, "_PATIENTS", 37)
        monkeypatch.setattr("fedcox.survival.threads._WORTH", 100)  # and in several parts


@pytest.mark.usefixtures("blocks")
@pytest.mark.parametrize("effects", [0.0, 1.0])
@pytest.mark.parametrize("detail", Detail)
@pytest.mark.parametrize("name", PIECES)
def test_sums_over_pieces_are_those_over_rows_of_patient_and_piece(
    name: str, detail: Detail, effects: float
) -> None:
    pieces = PIECES[name]
    alpha = np.random.default_rng(1).normal(-2.0, 0.5, pieces.intervals)
    beta, scaling = effects * BETA, Scaling.none(3)
    found = ask(COHORT, pieces, alpha, beta, detail)
    check(found, rows(COHORT, pieces, alpha, beta, scaling), detail)


@pytest.mark.usefixtures("blocks")
@pytest.mark.parametrize("detail", Detail)
@pytest.mark.parametrize(
    ("away", "apart"), [(0.0, 1.0), (3.0, 1.0), (1e6, 1.0), (3.0, 2.0**-14)]
)
def test_columns_far_from_zero_lose_no_digits(
    away: float, apart: float, detail: Detail
) -> None:
    # Shifted by powers of two, the columns themselves are as exact as before.
    shift = np.array([0.0, 1.0, -2.0]) * 2.0 ** np.round(np.log2(max(away, 1e-9)))
    near = Cohort(apart * np.round(COHORT.covariates, 3), COHORT.time, COHORT.event)
    far = Cohort(near.covariates + shift, COHORT.time, COHORT.event)
    exact = far.covariates - shift  # as the far columns have it
    pieces, alpha = PIECES["a few"], np.full(5, -2.0)
    scaling = Scaling(np.arange(3), shift + exact.mean(axis=0), exact.std(axis=0))
    centered = Scaling(np.arange(3), exact.mean(axis=0), exact.std(axis=0))
    expected = rows(Cohort(exact, COHORT.time, COHORT.event), pieces, alpha, BETA, centered)
    check(ask(far, pieces, alpha, BETA, detail, scaling), expected, detail, 1e-9)


@pytest.mark.parametrize("detail", Detail)
def test_missing_values_count_as_the_mean_and_columns_may_be_left_out(detail: Detail) -> None:
    x = COHORT.covariates.copy()
    x[::7, 0], x[3, 2] = np.nan, np.nan
    cohort = Cohort(np.column_stack([x, np.full(300, 1e300)]), COHORT.time, COHORT.event)
    for table, keep in ((cohort, [0, 2]), (COHORT, [2, 1])):
        columns = np.array(keep)
        mean = np.nanmean(table.covariates[:, columns], axis=0)
        scaling = Scaling(columns, mean, np.array([2.0, 0.5]))
        pieces, alpha, beta = PIECES["a few"], np.full(5, -2.0), np.array([0.3, -0.1])
        expected = rows(table, pieces, alpha, beta, scaling)
        check(ask(table, pieces, alpha, beta, detail, scaling), expected, detail)


@pytest.mark.parametrize("detail", Detail)
@pytest.mark.parametrize("time", [0.0, 1.0, 2.0, 3.0, 99.0])
@pytest.mark.parametrize("event", [False, True])
def test_one_patient_anywhere(time: float, event: bool, detail: Detail) -> None:
    # Before the first bound, on one, inside, at the end, and past everything.
    cohort = Cohort(np.array([[0.5, -1.0]]), np.array([time]), np.array([event]))
    pieces, alpha, beta = (
        Pieces(np.array([1.0, 2.0, 4.0])),
        np.array([-1.0, 0.3]),
        np.array([0.2, 0.7]),
    )
    expected = rows(cohort, pieces, alpha, beta, Scaling.none(2))
    check(ask(cohort, pieces, alpha, beta, detail), expected, detail)


@pytest.mark.parametrize("detail", Detail)
def test_nobody_adds_nothing(detail: Detail) -> None:
    empty = Cohort(np.empty((0, 3)), np.empty(0), np.empty(0, dtype=bool))
    found = ask(empty, PIECES["a few"], np.zeros(5), BETA, detail)
    check(found, (0.0, np.zeros(8), np.zeros((8, 8))), detail)


@pytest.mark.parametrize("detail", Detail)
def test_a_drawn_batch_is_its_patients_as_often_as_they_are_drawn(detail: Detail) -> None:
    pieces = PIECES["a few"]
    placed = pieces.at_risk(COHORT.time, COHORT.event)
    sums = PieceSums(COHORT, Scaling.none(3), placed, 5)
    drawn = sums.draw(np.array([250, 5, 17, 5, 9999]))
    twice = drawn.draw(np.array([5, 17]))
    for batch, members in ((drawn, [5, 5, 17, 250]), (twice, [5, 17])):
        same = COHORT.take(np.array(members))
        expected = rows(same, pieces, np.full(5, -2.0), BETA, Scaling.none(3))
        check(batch.derivatives(LOG, np.full(5, -2.0), BETA, detail), expected, detail)


@pytest.mark.parametrize("detail", Detail)
@pytest.mark.parametrize("name", PIECES)
def test_predictors_beyond_numbers_give_an_infinite_loss_and_no_nan(
    name: str, detail: Detail
) -> None:
    pieces = PIECES[name]
    for alpha, beta in ((0.0, 900.0), (800.0, 0.1), (-20.0, 1e5), (0.0, 1e308)):
        levels = np.full(pieces.intervals, alpha)
        found = ask(COHORT, pieces, levels, np.full(3, beta), detail)
        assert found.loss == np.inf
        numbers = [found.alpha, found.beta, *(found.curvature or ())]
        assert all(np.isfinite(part).all() for part in numbers if part is not None)


def test_rates_of_pieces_that_nobody_reaches_change_nothing() -> None:
    pieces, usual = PIECES["beyond everyone"], np.full(4, -2.0)
    absurd = np.array([-2.0, -2.0, 750.0, 750.0])
    cohort = Cohort(COHORT.covariates, np.minimum(COHORT.time, 198.0), COHORT.event)
    for detail in Detail:
        found = ask(cohort, pieces, absurd, BETA, detail)
        expected = ask(cohort, pieces, usual, BETA, detail)
        assert found.loss == expected.loss
        np.testing.assert_array_equal(found.alpha, expected.alpha)
        np.testing.assert_array_equal(found.beta, expected.beta)


@pytest.mark.parametrize("detail", Detail)
def test_copies_of_a_tied_event_count_by_their_share(detail: Detail) -> None:
    rng = np.random.default_rng(3)
    x, event = rng.normal(size=(40, 2)), np.arange(40) % 2 == 0
    passed = rng.integers(0, 4, 40)
    copies = np.where(event, rng.integers(1, 4, 40), 1)
    part = rng.uniform(size=40)
    cohort = Cohort(x, np.ones(40), event)
    tied = PieceSums(cohort, Scaling.none(2), TimeAtRisk(passed, event, part, copies), 7)
    alpha, beta = rng.normal(-1.0, 0.3, 7), np.array([0.3, -0.6])
    found = tied.derivatives(LOG, alpha, beta, detail)
    # A sixth of a patient, six times or three or two: each copy a patient of its own.
    many = 6 // copies
    row = np.repeat(np.repeat(np.arange(40), copies), np.repeat(many, copies))
    step = np.concatenate([np.repeat(np.arange(c), 6 // c) for c in copies])
    single = TimeAtRisk(passed[row] + step, event[row], part[row])
    whole = PieceSums(cohort, Scaling.none(2), single, 7, row)
    expected = whole.derivatives(LOG, alpha, beta, detail)
    assert found.loss == pytest.approx(expected.loss / 6.0, rel=1e-12)
    np.testing.assert_allclose(found.alpha, expected.alpha / 6.0, atol=1e-12)
    np.testing.assert_allclose(found.beta, expected.beta / 6.0, atol=1e-12)
    for own, other in zip(found.curvature or (), expected.curvature or (), strict=True):
        if own is not None and other is not None:
            np.testing.assert_allclose(own, other / 6.0, atol=1e-12)


def test_weighted_events_count_so_often() -> None:
    pieces, alpha = PIECES["a few"], np.full(5, -2.0)
    placed = pieces.at_risk(COHORT.time, COHORT.event)
    sums = PieceSums(COHORT, Scaling.none(3), placed, 5)
    once, thrice = (
        sums.derivatives(link, alpha, BETA, Detail.GRADIENT)
        for link in (LOG, WeightedEvents(LOG, 3.0))
    )
    none = COHORT.event & False
    never = PieceSums(
        COHORT, Scaling.none(3), TimeAtRisk(placed.passed, none, placed.part), 5
    ).derivatives(LOG, alpha, BETA, Detail.GRADIENT)
    assert thrice.loss - never.loss == pytest.approx(3.0 * (once.loss - never.loss))
    np.testing.assert_allclose(thrice.alpha - never.alpha, 3.0 * (once.alpha - never.alpha))
    np.testing.assert_allclose(thrice.beta - never.beta, 3.0 * (once.beta - never.beta))
