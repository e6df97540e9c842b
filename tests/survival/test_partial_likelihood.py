"""Cox's partial likelihood against its definition, written out patient by patient."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedcox.survival import partial_likelihood
from fedcox.survival.cohort import Cohort, FloatArray
from fedcox.survival.derivatives import Derivatives, Detail
from fedcox.survival.partial_likelihood import _FARTHEST, PartialLikelihood, Ties
from fedcox.survival.scaling import Scaling
from tests.problems import simulated

TIES: tuple[Ties, ...] = ("breslow", "efron")
COLUMNS = 2


def written_out(
    cohort: Cohort, beta: FloatArray, ties: Ties
) -> tuple[float, FloatArray, FloatArray]:
    """Loss, gradient and Hessian: for every event, everyone at risk."""
    columns = cohort.columns
    loss, gradient, hessian = 0.0, np.zeros(columns), np.zeros((columns, columns))
    for time in sorted(set(cohort.time[cohort.event].tolist())):
        at_risk = [i for i in range(cohort.patients) if cohort.time[i] >= time]
        tied = [i for i in at_risk if cohort.time[i] == time and cohort.event[i]]
        for place, event in enumerate(tied):
            removed = place / len(tied) if ties == "efron" else 0.0
            total, first, second = 0.0, np.zeros(columns), np.zeros((columns, columns))
            for i in at_risk:
                x = cohort.covariates[i]
                weight = np.exp(beta @ x) * ((1.0 - removed) if i in tied else 1.0)
                total += weight
                first += weight * x
                second += weight * np.outer(x, x)
            mean = first / total
            loss += np.log(total) - beta @ cohort.covariates[event]
            gradient += mean - cohort.covariates[event]
            hessian += second / total - np.outer(mean, mean)
    return loss, gradient, hessian


def found(cohort: Cohort, beta: FloatArray, ties: Ties, detail: Detail) -> Derivatives:
    scaling = Scaling.none(cohort.columns)
    return PartialLikelihood.of(cohort, scaling, ties).derivatives(beta, detail)


def curvature(derivatives: Derivatives) -> FloatArray:
    assert derivatives.curvature is not None
    return derivatives.curvature.beta


@st.composite
def cohorts(draw: st.DrawFn, most: int = 14) -> Cohort:
    """Few distinct times, zero among them, so most events are tied; sometimes no event."""
    size = draw(st.integers(0, most))
    value = st.floats(-2.0, 2.0)
    covariates = draw(st.lists(st.tuples(value, value), min_size=size, max_size=size))
    times = draw(st.lists(st.integers(0, 4), min_size=size, max_size=size))
    events = draw(st.lists(st.booleans(), min_size=size, max_size=size))
    return Cohort(
        np.array(covariates, dtype=np.float64).reshape(size, COLUMNS),
        np.array(times, dtype=np.float64),
        np.array(events, dtype=np.bool_),
    )


betas = st.tuples(st.floats(-2.0, 2.0), st.floats(-2.0, 2.0)).map(np.array)


@settings(max_examples=150)
@given(cohort=cohorts(), beta=betas, ties=st.sampled_from(TIES))
def test_loss_and_derivatives_are_the_definition(
    cohort: Cohort, beta: FloatArray, ties: Ties
) -> None:
    loss, gradient, hessian = written_out(cohort, beta, ties)
    reply = found(cohort, beta, ties, Detail.HESSIAN)
    assert reply.loss == pytest.approx(loss, abs=1e-10)
    np.testing.assert_allclose(reply.beta, gradient, atol=1e-10)
    np.testing.assert_allclose(curvature(reply), hessian, atol=1e-10)


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("unit", [3.0, 100.0])
def test_derivatives_agree_with_finite_differences(ties: Ties, unit: float) -> None:
    cohort, step = simulated(150, 3, seed=8, unit=unit), 1e-5
    beta = np.array([0.4, -0.7, 0.2])
    here = found(cohort, beta, ties, Detail.HESSIAN)
    for column, move in enumerate(step * np.eye(3)):
        above, below = (
            found(cohort, beta + sign * move, ties, Detail.GRADIENT) for sign in (1.0, -1.0)
        )
        assert here.beta[column] == pytest.approx(
            (above.loss - below.loss) / (2 * step), abs=1e-6
        )
        np.testing.assert_allclose(
            curvature(here)[:, column], (above.beta - below.beta) / (2 * step), atol=1e-6
        )


@pytest.mark.parametrize("ties", TIES)
def test_every_detail_tells_the_same_story(ties: Ties) -> None:
    cohort, beta = simulated(80, 3, seed=1, unit=5.0), np.array([0.3, -0.2, 0.9])
    whole = found(cohort, beta, ties, Detail.HESSIAN)
    for detail in Detail:
        reply = found(cohort, beta, ties, detail)
        assert reply.loss == whole.loss
        assert reply.alpha.shape == (0,)
        np.testing.assert_array_equal(reply.beta, whole.beta)
        if detail is Detail.GRADIENT:
            assert reply.curvature is None
        elif detail is Detail.DIAGONAL:
            np.testing.assert_allclose(curvature(reply), np.diag(curvature(whole)), rtol=1e-12)
        else:
            np.testing.assert_array_equal(curvature(reply), curvature(whole))
            assert reply.curvature is not None
            cross = reply.curvature.cross
            assert cross is None if detail is Detail.BLOCK else cross is not None
            assert cross is None or cross.shape == (0, 3)


def test_without_ties_breslow_is_efron() -> None:
    cohort, beta = simulated(60, 2, seed=4, unit=1e9), np.array([0.5, -1.0])
    assert np.unique(cohort.time).size == cohort.patients
    breslow, efron = (found(cohort, beta, ties, Detail.HESSIAN) for ties in TIES)
    assert breslow.loss == efron.loss
    np.testing.assert_array_equal(curvature(breslow), curvature(efron))


@pytest.mark.parametrize("ties", TIES)
def test_the_order_of_patients_does_not_matter(ties: Ties) -> None:
    cohort, beta = simulated(90, 3, seed=2, unit=4.0), np.array([0.1, 0.2, -0.3])
    order = np.random.default_rng(0).permutation(90)
    mixed = Cohort(cohort.covariates[order], cohort.time[order], cohort.event[order])
    one, other = (found(each, beta, ties, Detail.HESSIAN) for each in (cohort, mixed))
    assert one.loss == pytest.approx(other.loss, rel=1e-13)
    np.testing.assert_allclose(one.beta, other.beta, atol=1e-11)
    np.testing.assert_allclose(curvature(one), curvature(other), atol=1e-11)


@pytest.mark.parametrize("ties", TIES)
def test_only_the_order_of_times_matters(ties: Ties) -> None:
    cohort, beta = simulated(70, 2, seed=3, unit=6.0), np.array([0.6, -0.4])
    squared = Cohort(cohort.covariates, cohort.time**2, cohort.event)
    one, other = (found(each, beta, ties, Detail.GRADIENT) for each in (cohort, squared))
    assert one.loss == other.loss


@settings(max_examples=100)
@given(
    cohort=cohorts(),
    beta=betas,
    ties=st.sampled_from(TIES),
    numbers=st.lists(st.integers(0, 20), max_size=25),
)
def test_a_drawn_batch_is_the_cohort_of_those_patients(
    cohort: Cohort, beta: FloatArray, ties: Ties, numbers: list[int]
) -> None:
    """Some are drawn twice, some belong to other centers."""
    drawn = np.array(numbers, dtype=np.int64)
    own = drawn[drawn < cohort.patients]
    repeated = Cohort(cohort.covariates[own], cohort.time[own], cohort.event[own])
    stratum = PartialLikelihood.of(cohort, Scaling.none(COLUMNS), ties)
    reply = stratum.draw(drawn).derivatives(beta, Detail.HESSIAN)
    loss, gradient, hessian = written_out(repeated, beta, ties)
    assert reply.loss == pytest.approx(loss, abs=1e-10)
    np.testing.assert_allclose(reply.beta, gradient, atol=1e-10)
    np.testing.assert_allclose(curvature(reply), hessian, atol=1e-10)


def test_a_batch_goes_by_study_numbers_not_by_rows() -> None:
    cohort, beta = simulated(30, 2, seed=6), np.array([0.5, 0.5])
    renumbered = Cohort(cohort.covariates, cohort.time, cohort.event, 100 + np.arange(30)[::-1])
    stratum = PartialLikelihood.of(renumbered, Scaling.none(2), "efron")
    first_ten = found(
        Cohort(cohort.covariates[:10], cohort.time[:10], cohort.event[:10]),
        beta,
        "efron",
        Detail.GRADIENT,
    )
    drawn = stratum.draw(np.arange(120, 130)).derivatives(beta, Detail.GRADIENT)
    assert drawn.loss == pytest.approx(first_ten.loss, rel=1e-14)


@pytest.mark.parametrize("ties", TIES)
def test_scaling_and_missing_values_are_those_of_the_study(ties: Ties) -> None:
    cohort = simulated(50, 3, seed=9, unit=5.0)
    holes = cohort.covariates.copy()
    holes[::4, 2] = np.nan
    scaling = Scaling(np.array([2, 0]), np.array([0.3, -1.0]), np.array([2.0, 0.5]))
    scaled = (np.where(np.isnan(holes[:, 2]), 0.3, holes[:, 2]) - 0.3) / 2.0
    by_hand = Cohort(
        np.column_stack([scaled, (holes[:, 0] + 1.0) / 0.5]), cohort.time, cohort.event
    )
    beta = np.array([0.7, -0.2])
    reply = PartialLikelihood.of(
        Cohort(holes, cohort.time, cohort.event), scaling, ties
    ).derivatives(beta, Detail.GRADIENT)
    assert reply.loss == pytest.approx(
        found(by_hand, beta, ties, Detail.GRADIENT).loss, rel=1e-13
    )


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("size", [1e2, 1e3, 1e5])
def test_far_from_any_optimum_numbers_stay_finite_and_the_loss_is_worse(
    ties: Ties, size: float
) -> None:
    cohort = simulated(60, 2, seed=5, unit=5.0)
    near = found(cohort, np.zeros(2), ties, Detail.GRADIENT)
    far = found(cohort, np.array([-size, size]), ties, Detail.HESSIAN)
    assert near.loss < far.loss < np.inf
    assert np.isfinite(far.beta).all()
    assert np.isfinite(curvature(far)).all()


@pytest.mark.parametrize("ties", TIES)
def test_a_common_shift_of_all_risks_changes_nothing(ties: Ties) -> None:
    """A column of 1e3 for everyone adds 1e3 to every predictor."""
    cohort = simulated(60, 2, seed=5, unit=5.0)
    shifted = Cohort(
        np.column_stack([cohort.covariates, np.full(60, 1e3)]), cohort.time, cohort.event
    )
    one = found(cohort, np.array([0.5, 0.5]), ties, Detail.HESSIAN)
    other = found(shifted, np.array([0.5, 0.5, 1.0]), ties, Detail.HESSIAN)
    assert other.loss == pytest.approx(one.loss, rel=1e-12)
    np.testing.assert_allclose(other.beta[:2], one.beta, atol=1e-9)


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("patients", [0, 1, 5])
def test_without_events_there_is_nothing_to_say(ties: Ties, patients: int) -> None:
    cohort = Cohort(np.ones((patients, 2)), np.arange(patients * 1.0), np.zeros(patients, bool))
    for detail in Detail:
        reply = found(cohort, np.ones(2), ties, detail)
        assert reply.loss == 0.0
        assert reply.beta.tolist() == [0.0, 0.0]


def written_out_for_any_risks(
    cohort: Cohort, beta: FloatArray, ties: Ties
) -> tuple[float, FloatArray, FloatArray]:
    """The same in extended precision, around the largest predictor of each risk set.

    The Hessian is the spread around the mean of each term, not a difference of two sums.
    """
    x = cohort.covariates.astype(np.longdouble)
    predictor = (cohort.covariates @ beta).astype(np.longdouble)
    columns = cohort.columns
    loss, gradient = np.longdouble(0), np.zeros(columns, np.longdouble)
    hessian = np.zeros((columns, columns), np.longdouble)
    for time in np.unique(cohort.time[cohort.event]):
        at_risk = cohort.time >= time
        tied = cohort.event & (cohort.time == time)
        for place, event in enumerate(tied.nonzero()[0]):
            removed = np.longdouble(place) / tied.sum() if ties == "efron" else 0
            largest = predictor[at_risk].max()
            risk = np.exp(predictor[at_risk] - largest) * (1 - removed * tied[at_risk])
            share = risk / risk.sum()
            mean = share @ x[at_risk]
            away = x[at_risk] - mean
            loss += np.log(risk.sum()) + largest - predictor[event]
            gradient += mean - x[event]
            hessian += (away * share[:, None]).T @ away
    return float(loss), gradient.astype(np.float64), hessian.astype(np.float64)


def with_outliers(cohort: Cohort, seed: int, size: float = 500.0) -> Cohort:
    """Some patients get extreme covariates, whatever their time and event."""
    rng = np.random.default_rng(seed)
    covariates = cohort.covariates.copy()
    rows = rng.choice(cohort.patients, 6, replace=False)
    covariates[rows, 0] += size * rng.normal(size=6)
    return Cohort(covariates, cohort.time, cohort.event)


def same_as_written_out(
    reply: Derivatives, cohort: Cohort, beta: FloatArray, ties: Ties
) -> None:
    """To rounding in what is added up: for every event, predictors, covariates, squares."""
    loss, gradient, hessian = written_out_for_any_risks(cohort, beta, ties)
    rounding = 1e-15 * cohort.event.sum()
    largest = max(1.0, float(np.abs(cohort.covariates).max()))
    predictor = float(np.abs(cohort.covariates @ beta).max())
    assert reply.loss == pytest.approx(loss, rel=1e-13, abs=rounding * max(1.0, predictor))
    np.testing.assert_allclose(reply.beta, gradient, rtol=1e-13, atol=rounding * largest)
    if reply.curvature is not None:
        expected = hessian if curvature(reply).ndim == 2 else np.diag(hessian)
        np.testing.assert_allclose(
            curvature(reply), expected, rtol=1e-13, atol=10 * rounding * largest**2
        )


def distance(cohort: Cohort, beta: FloatArray) -> float:
    """From the largest predictor of the last risk set to the largest of all."""
    predictor = cohort.covariates @ beta
    last = predictor[cohort.time >= cohort.time[cohort.event].max()]
    return float(predictor.max() - last.max())


@pytest.mark.parametrize("detail", Detail)
@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("unit", [4.0, 1e6])
@pytest.mark.parametrize("seed", range(6))
def test_risks_may_lie_as_far_apart_as_they_like(
    seed: int, unit: float, ties: Ties, detail: Detail
) -> None:
    cohort = with_outliers(simulated(60, 3, seed=seed, unit=unit), seed)
    for size in (1.0, -1.0, 40.0):
        beta = size * np.array([1.0, -0.4, 0.7])
        same_as_written_out(found(cohort, beta, ties, detail), cohort, beta, ties)


def test_the_outliers_drawn_above_are_far_enough_to_matter() -> None:
    beta = np.array([1.0, -0.4, 0.7])
    far = [
        distance(with_outliers(simulated(60, 3, seed=seed, unit=4.0), seed), sign * beta)
        for seed in range(6)
        for sign in (1.0, -1.0)
    ]
    assert sum(each > _FARTHEST for each in far) >= 6


@pytest.mark.parametrize("ties", TIES)
def test_a_batch_may_hold_outliers(ties: Ties) -> None:
    cohort = with_outliers(simulated(80, 3, seed=2, unit=6.0), seed=2, size=3000.0)
    drawn = np.random.default_rng(1).integers(80, size=70)
    repeated = Cohort(cohort.covariates[drawn], cohort.time[drawn], cohort.event[drawn])
    beta = np.array([-1.0, 0.5, 0.5])
    assert distance(repeated, beta) > _FARTHEST
    reply = (
        PartialLikelihood.of(cohort, Scaling.none(3), ties)
        .draw(drawn)
        .derivatives(beta, Detail.HESSIAN)
    )
    same_as_written_out(reply, repeated, beta, ties)


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("steepness", [2.0, 400.0, 1e6])
def test_risks_in_perfect_order_lose_nothing(ties: Ties, steepness: float) -> None:
    """Whoever has the highest risk goes next: the likelihood tends to one."""
    cohort = Cohort(-np.arange(400.0)[:, None], np.arange(400.0), np.ones(400, dtype=np.bool_))
    ordered = np.array([steepness])
    reply = found(cohort, ordered, ties, Detail.HESSIAN)
    same_as_written_out(reply, cohort, ordered, ties)
    if steepness > 100:
        rest = np.array([reply.loss, reply.beta[0], curvature(reply)[0, 0]])
        assert np.abs(rest).max() < 1e-99
    same_as_written_out(found(cohort, -ordered, ties, Detail.HESSIAN), cohort, -ordered, ties)


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("seed", range(4))
def test_nothing_jumps_where_risks_come_to_lie_too_far_apart(seed: int, ties: Ties) -> None:
    cohort = simulated(80, 2, seed=seed, unit=6.0)
    first = np.flatnonzero(cohort.event)[cohort.time[cohort.event].argmin()]
    covariates = cohort.covariates.copy()
    covariates[first, 0] = 30.0
    cohort = Cohort(covariates, cohort.time, cohort.event)
    beta = np.array([1.0, 0.3])
    beta *= _FARTHEST / distance(cohort, beta)
    below, above = (beta * (1.0 + sign * 1e-14) for sign in (-1.0, 1.0))
    assert distance(cohort, below) < _FARTHEST < distance(cohort, above)
    one, other = (found(cohort, each, ties, Detail.HESSIAN) for each in (below, above))
    assert one.loss == pytest.approx(other.loss, rel=1e-12)
    np.testing.assert_allclose(one.beta, other.beta, rtol=1e-12, atol=1e-12)
    # Squares of 30 cancel, for the outlier.
    np.testing.assert_allclose(curvature(one), curvature(other), rtol=1e-12, atol=3e-12)


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("farthest", [40.0, 60.0, 150.0])
def test_it_does_not_matter_where_event_times_are_cut(
    ties: Ties, farthest: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    cohort = simulated(150, 3, seed=5, unit=6.0)
    beta = np.array([-80.0, 40.0, -10.0])
    assert 150.0 < distance(cohort, beta) < _FARTHEST
    whole = found(cohort, beta, ties, Detail.HESSIAN)
    monkeypatch.setattr(partial_likelihood, "_FARTHEST", farthest)
    cut = found(cohort, beta, ties, Detail.HESSIAN)
    assert cut.loss == pytest.approx(whole.loss, rel=1e-13)
    np.testing.assert_allclose(cut.beta, whole.beta, rtol=1e-12)
    np.testing.assert_allclose(curvature(cut), curvature(whole), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("row", [0, 10, 19])
def test_overflow_is_no_number_and_no_exception(ties: Ties, value: float, row: int) -> None:
    covariates = np.linspace(-1.0, 1.0, 20)[:, None]
    time = np.arange(20.0) // 2
    stratum = PartialLikelihood.of(
        Cohort(covariates, time, np.ones(20, dtype=np.bool_)), Scaling.none(1), ties
    )
    stratum.covariates[row] = value
    assert not np.isfinite(stratum.derivatives(np.ones(1), Detail.HESSIAN).loss)
