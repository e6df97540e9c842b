"""Data that break careless programs: finite numbers and a warning, or an error in words."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from lifelines import KaplanMeierFitter
from lifelines.datasets import load_rossi
from scipy.optimize import minimize

from fedcox.engines.in_process import InProcess
from fedcox.errors import (
    AliasedColumnsWarning,
    CohortError,
    ConstantColumnsWarning,
    EmptyIntervalsWarning,
    EventsOnlyIntervalsWarning,
    FedcoxWarning,
    FilledCellsWarning,
    NotConvergedWarning,
    RidgeWarning,
    SeparationWarning,
)
from fedcox.study.fit import fit
from fedcox.study.fitted import FittedStudy
from fedcox.study.study import Study
from fedcox.survival.cohort import FloatArray
from tests.problems import READINGS, simulated
from tests.stacked_glm import GLM_LINKS, Rows, binomial_glm, by_width, design

WIDTH = 20.0
SOLVERS: dict[str, dict[str, Any]] = {
    "newton": {"method": "newton"},
    "lbfgs by the diagonal": {"method": "lbfgs"},
    "lbfgs by the block": {"method": "lbfgs", "scaling": "block"},
}


def table(patients: int = 240, columns: int = 2, seed: int = 5, **more: Any) -> pd.DataFrame:
    """Simulated patients in columns a, b, …; `more` columns beside or instead."""
    cohort = simulated(patients, columns, seed=seed)
    frame = pd.DataFrame(cohort.covariates, columns=list("abcdefgh")[:columns])
    return frame.assign(time=cohort.time, event=cohort.event.astype(int), **more)


def run(
    frame: pd.DataFrame,
    *,
    center: str | None = None,
    grid: Any = None,
    solver: Any = None,
    **model: Any,
) -> FittedStudy:
    """Fit every column that is not part of the outcome; warnings are left in `notices`."""
    names = [name for name in frame if name not in {"time", "event", "center"}]
    study = Study(
        outcome={"time": "time", "event": "event", "zero_times": "first_interval"},
        covariates=names,
        grid=grid or {"width": WIDTH},
        model={"link": "cloglog", **model},
        solver=solver or {"method": "newton"},
    )
    federation = InProcess.from_frame(study, frame, center=center)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FedcoxWarning)
        return fit(study, federation)


def told(fitted: FittedStudy, warning: type[FedcoxWarning]) -> str:
    return "".join(note.text for note in fitted.notices if note.name == warning.__name__)


def assert_usable(fitted: FittedStudy) -> None:
    """Finite numbers in everything that is shown."""
    rows = [row for row in fitted.coefficients if row.coef is not None]
    for row in rows:
        assert row.se is not None
        assert row.se > 0
        shown = np.array([row.coef, row.se, row.z, row.p], dtype=np.float64)
        assert np.isfinite(shown).all()
    assert np.isfinite(fitted.log_likelihood)
    assert all(row.alpha is None or np.isfinite(row.alpha) for row in fitted.baseline)


def reference_rows(frame: pd.DataFrame, reading: str = "include", **options: Any) -> Rows:
    options = {"width": WIDTH, **options}
    time, event = frame["time"].tolist(), frame["event"].eq(1).tolist()
    return by_width(time, event, reading=reading, **options)


def assert_same(
    ours: FittedStudy, theirs: FittedStudy, names: list[str], rtol: float = 1e-9
) -> None:
    for column in ("coef", "se(coef)"):
        np.testing.assert_allclose(
            ours.summary.loc[names, column], theirs.summary.loc[names, column], rtol=rtol
        )
    assert ours.log_likelihood == pytest.approx(theirs.log_likelihood, abs=100 * rtol**1.5)


@pytest.mark.parametrize("intervals", [400, 401])
def test_counts_by_center_are_kept_for_up_to_four_hundred_intervals(intervals: int) -> None:
    frame = table()
    frame.loc[0, ["time", "event"]] = [500.0, 0]
    fitted = run(frame, grid={"width": 1, "horizon": intervals})
    assert (fitted.centers[0].interval_events is not None) == (intervals == 400)


# Separation


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("link", GLM_LINKS)
@pytest.mark.parametrize("size", [1, 5, 60])
def test_a_group_without_events_is_named_and_spoils_nothing_else(
    link: str, solver: str, size: int
) -> None:
    frame = table(400)
    group = np.zeros(400)
    group[np.flatnonzero(frame["event"] == 0)[:size]] = 1.0
    ours = run(frame.assign(group=group), link=link, solver=SOLVERS[solver])
    assert "coefficient of group grows" in told(ours, SeparationWarning)
    assert ours.ending.endswith(" the coefficient of group grows without bound")
    assert_usable(ours)
    row = ours.coefficients[2]
    assert row.coef is not None
    assert row.coef < -8
    assert (row.se or 0) > 100
    # In the limit the group's patients leave the likelihood.
    limit = run(frame[group == 0], link=link)
    assert_same(ours, limit, ["a", "b"], rtol=1e-3)
    assert not told(limit, SeparationWarning)
    assert limit.ending == f"converged in {limit.rounds} rounds"


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_group_that_has_the_event_at_once_is_named(solver: str) -> None:
    frame = table(300)
    first = (frame["time"] <= WIDTH) & (frame["event"] == 1)
    group = (first & (np.arange(300) % 2 == 0)).astype(float)
    assert group.sum() > 5
    ours = run(frame.assign(group=group), solver=SOLVERS[solver])
    assert "coefficient of group grows" in told(ours, SeparationWarning)
    assert_usable(ours)
    assert (ours.coefficients[2].coef or 0) > 1


def test_a_rare_level_without_events_in_a_large_cohort_is_named() -> None:
    frame = table(20_000)
    group = np.zeros(20_000)
    group[np.flatnonzero(frame["event"] == 0)[:30]] = 1.0
    assert "coefficient of group grows" in told(
        run(frame.assign(group=group)), SeparationWarning
    )


@pytest.mark.parametrize("solver", SOLVERS)
def test_separation_by_two_columns_together_names_both(solver: str) -> None:
    frame = table(300)
    rng = np.random.default_rng(0)
    p, q = (rng.random((2, 300)) < 0.5).astype(float)
    frame.loc[(p == 1) & (q == 0), "event"] = 0  # nobody with p alone has the event
    ours = run(frame.assign(p=p, both=p * q), solver=SOLVERS[solver])
    text = told(ours, SeparationWarning)
    assert "p, both" in text
    assert_usable(ours)
    kept = run(frame[(p == 0) | (q == 1)].assign(both=(p * q)[(p == 0) | (q == 1)]))
    assert_same(ours, kept, ["a", "b"], rtol=1e-3)


@pytest.mark.parametrize("link", GLM_LINKS)
def test_a_number_that_orders_all_events_is_separation(link: str) -> None:
    # One interval: logistic regression, completely separated by x.
    x = np.arange(40.0)
    frame = pd.DataFrame({"x": x, "time": 5.0, "event": (x > 20).astype(int)})
    ours = run(frame, grid={"width": 10}, link=link)
    assert "coefficient of x grows" in told(ours, SeparationWarning)
    assert_usable(ours)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("link", GLM_LINKS)
def test_a_group_with_one_event_is_not_separation(link: str, seed: int) -> None:
    frame = table(500, seed=seed)
    group = np.zeros(500)
    group[np.flatnonzero(frame["event"] == 0)[:80]] = 1.0
    group[np.flatnonzero(frame["event"] == 1)[seed]] = 1.0
    ours = run(frame.assign(group=group), link=link)
    assert not told(ours, SeparationWarning)
    theirs = binomial_glm(
        reference_rows(frame), np.column_stack([frame[["a", "b"]], group]), link
    )
    np.testing.assert_allclose(ours.summary["coef"], theirs.coef, rtol=1e-7)
    np.testing.assert_allclose(ours.summary["se(coef)"], theirs.se, rtol=1e-7)


def test_nearly_equal_columns_are_not_separation() -> None:
    frame = table(300)
    frame["twin"] = frame["a"] + 1e-4 * np.random.default_rng(0).normal(size=300)
    ours = run(frame)
    assert not told(ours, SeparationWarning)
    assert not told(ours, AliasedColumnsWarning)
    theirs = binomial_glm(
        reference_rows(frame), frame[["a", "b", "twin"]].to_numpy(), "cloglog"
    )
    np.testing.assert_allclose(ours.summary["coef"], theirs.coef, rtol=1e-4)
    np.testing.assert_allclose(ours.summary["se(coef)"], theirs.se, rtol=1e-4)


def test_a_ridge_makes_separated_coefficients_finite_and_says_what_it_does_to_tests() -> None:
    frame = table(300)
    group = np.zeros(300)
    group[np.flatnonzero(frame["event"] == 0)[:30]] = 1.0
    ours = run(frame.assign(group=group), ridge=0.5)
    assert not told(ours, SeparationWarning)
    assert -6 < (ours.coefficients[2].coef or 0) < -1
    assert "A ridge of 0.5 pulls every coefficient towards zero" in told(ours, RidgeWarning)
    assert "z, p and intervals are not what they are without it" in told(ours, RidgeWarning)
    assert not told(run(frame), RidgeWarning)


def test_with_a_ridge_errors_count_the_penalty_and_leave_out_the_bias() -> None:
    """What the warning says: simulated again and again, the intervals miss the truth."""
    covered: dict[float, list[bool]] = {0.0: [], 30.0: []}
    for seed in range(60):
        frame = table(100, columns=1, seed=seed)  # the truth is -0.6
        for ridge, kept in covered.items():
            row = run(frame, ridge=ridge).coefficients[0]
            assert row.coef is not None
            assert row.se is not None
            kept.append(abs(row.coef + 0.6) < 1.96 * row.se)
    assert np.mean(covered[0.0]) > 0.85
    assert np.mean(covered[30.0]) < 0.6


# Columns that say nothing new


@pytest.mark.parametrize("value", [0.0, 7.0, 0.1, -1e6 / 3])
@pytest.mark.parametrize("ridge", [0.0, 1.0])
def test_a_constant_column_is_named_and_left_out(value: float, ridge: float) -> None:
    frame = table()
    ours = run(frame.assign(same=value), ridge=ridge)
    assert told(ours, ConstantColumnsWarning).startswith("same: ")
    row = ours.coefficients[2]
    assert (row.name, row.note, row.coef, row.se, row.p) == (
        "same",
        "constant",
        None,
        None,
        None,
    )
    assert row.mean == pytest.approx(value)
    assert_same(ours, run(frame, ridge=ridge), ["a", "b"])


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("link", GLM_LINKS)
def test_without_a_usable_column_the_curve_is_that_of_kaplan_and_meier(
    link: str, solver: str
) -> None:
    frame = table()[["time", "event"]].assign(same=3.0)
    ours = run(frame, grid={"times": "events"}, link=link, solver=SOLVERS[solver])
    assert ours.converged
    assert ours.likelihood_ratio is None
    assert ours.log_likelihood == pytest.approx(ours.null_log_likelihood, rel=1e-12)
    curve = ours.predict_survival(pd.DataFrame({"same": [3.0]})).iloc[0]
    theirs = KaplanMeierFitter().fit(frame["time"], frame["event"])
    np.testing.assert_allclose(
        curve, theirs.survival_function_at_times(curve.index), atol=1e-12
    )


def test_a_column_missing_everywhere_is_left_out_as_constant() -> None:
    frame = table().assign(unknown=np.nan)
    ours = run(frame, missing="mean")
    assert "unknown" in told(ours, ConstantColumnsWarning)
    assert_same(ours, run(table()), ["a", "b"])


def test_a_column_constant_in_each_center_but_not_over_them_is_legal() -> None:
    frame = table()
    place = np.arange(len(frame)) % 3
    frame = frame.assign(volume=100.0 * place, center=place.astype(str))
    ours = run(frame, center="center")
    theirs = binomial_glm(
        reference_rows(frame), frame[["a", "b", "volume"]].to_numpy(), "cloglog"
    )
    np.testing.assert_allclose(ours.summary["coef"], theirs.coef, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(ours.summary["se(coef)"], theirs.se, rtol=1e-8)


def test_of_columns_that_repeat_each_other_the_later_one_goes() -> None:
    frame = table()
    repeated = frame.assign(
        sum_=frame["a"] + 2 * frame["b"] - 3, again=frame["a"], c=np.arange(240.0) % 7
    )
    ours = run(repeated)
    assert [row.name for row in ours.coefficients if row.note == "aliased"] == ["sum_", "again"]
    assert told(ours, AliasedColumnsWarning).startswith("sum_, again: ")
    assert_same(ours, run(frame.assign(c=repeated["c"])), ["a", "b", "c"])
    assert ours.likelihood_ratio is not None
    assert ours.likelihood_ratio["df"] == 3
    turned = run(repeated[["again", "sum_", "b", "a", "c", "time", "event"]])
    assert [row.name for row in turned.coefficients if row.note] == ["b", "a"]
    assert turned.log_likelihood == pytest.approx(ours.log_likelihood, rel=1e-12)


@pytest.mark.parametrize("solver", SOLVERS)
def test_indicators_of_every_level_lose_the_last_one(solver: str) -> None:
    frame = table()
    level = np.arange(240) % 3
    ours = run(
        frame.assign(**{f"level{k}": (level == k).astype(float) for k in range(3)}),
        solver=SOLVERS[solver],
    )
    assert [row.name for row in ours.coefficients if row.note == "aliased"] == ["level2"]
    assert_usable(ours)


def test_more_columns_than_patients_leave_as_many_as_the_rank() -> None:
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(rng.normal(size=(12, 20)), columns=[f"x{j}" for j in range(20)])
    frame = frame.assign(time=np.arange(1.0, 13.0), event=[1, 0] * 6)
    ours = run(frame, grid={"width": 4})
    assert [row.note == "aliased" for row in ours.coefficients] == [False] * 11 + [True] * 9
    assert "SeparationWarning" in [notice.name for notice in ours.notices]
    assert_usable(ours)


@pytest.mark.parametrize("solver", SOLVERS)
def test_more_columns_than_events_give_finite_numbers_and_a_warning(solver: str) -> None:
    rng = np.random.default_rng(2)
    frame = pd.DataFrame(rng.normal(size=(60, 20)), columns=[f"x{j}" for j in range(20)])
    frame = frame.assign(time=rng.integers(1, 100, 60), event=(np.arange(60) % 12 == 0) * 1)
    ours = run(frame, solver=SOLVERS[solver])
    assert_usable(ours)
    # Five events cannot estimate twenty coefficients.
    assert told(ours, SeparationWarning)
    ridged = run(frame, solver=SOLVERS[solver], ridge=1.0)
    assert ridged.converged
    assert not told(ridged, SeparationWarning)


@pytest.mark.parametrize("factor", [1e-100, 1e-9, 1e9, 1e100])
def test_units_of_any_size_do_not_matter(factor: float) -> None:
    frame = table()
    ours, expected = run(frame.assign(a=frame["a"] * factor)), run(frame)
    for column in ("coef", "se(coef)"):
        scaled = ours.summary[column] * np.array([factor, 1.0])
        np.testing.assert_allclose(scaled, expected.summary[column], rtol=1e-8)
    assert ours.log_likelihood == pytest.approx(expected.log_likelihood, rel=1e-11)


# Intervals


@pytest.mark.parametrize(
    ("link", "reading"),
    [("logit", "exclude"), ("cloglog", "exclude"), ("cloglog", "include"), ("logit", "half")],
)
def test_administrative_censoring_in_the_last_week_of_rossi(link: str, reading: str) -> None:
    frame = load_rossi().rename(columns={"week": "time", "arrest": "event"})
    ours = run(frame, grid={"width": 1}, link=link, censored_interval=reading)
    rows = reference_rows(frame, reading, width=1)
    covariates = frame.drop(columns=["time", "event"]).to_numpy(np.float64)
    theirs = binomial_glm(rows, covariates, link)
    np.testing.assert_allclose(ours.summary["coef"], theirs.coef, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(ours.summary["se(coef)"], theirs.se, rtol=1e-8)
    assert ours.log_likelihood == pytest.approx(theirs.log_likelihood, rel=1e-11)
    last = ours.baseline[51]
    if reading == "exclude":
        assert "In 1 of 52 intervals everyone" in told(ours, EventsOnlyIntervalsWarning)
        assert (last.alpha, last.hazard, last.at_risk, last.events) == (None, 1.0, 4.0, 4)
    else:
        assert last.alpha is not None
        assert not told(ours, EventsOnlyIntervalsWarning)
    empty = [row for row in ours.baseline if row.events == 0]
    assert f"{len(empty)} of 52 intervals" in told(ours, EmptyIntervalsWarning)
    assert all(row.alpha is None and row.hazard == 0 for row in empty)


def test_intervals_without_events_say_nothing_about_the_coefficients() -> None:
    frame = table()
    late = frame.assign(time=frame["time"] + 5 * WIDTH)
    ours = run(late)
    assert all(row.alpha is None for row in ours.baseline[:5])
    assert_same(ours, run(frame), ["a", "b"])
    np.testing.assert_allclose(
        [row.alpha for row in ours.baseline[5:] if row.alpha],
        [row.alpha for row in run(frame).baseline if row.alpha],
        rtol=1e-9,
    )


@pytest.mark.parametrize("link", GLM_LINKS)
def test_one_interval_is_ordinary_binary_regression(link: str) -> None:
    frame = table()
    ours = run(frame, grid={"width": 1000, "horizon": 1000}, link=link)
    assert len(ours.baseline) == 1
    family = sm.families.Binomial(GLM_LINKS[link]())
    matrix = sm.add_constant(frame[["a", "b"]].to_numpy())
    model = sm.GLM(frame["event"].to_numpy(), matrix, family=family)
    theirs = model.fit(tol=1e-11, tol_criterion="params")
    np.testing.assert_allclose(ours.summary["coef"], theirs.params[1:], rtol=1e-8)
    np.testing.assert_allclose(ours.summary["se(coef)"], theirs.bse[1:], rtol=1e-7)
    assert ours.baseline[0].alpha == pytest.approx(theirs.params[0], rel=1e-8)
    assert ours.log_likelihood == pytest.approx(theirs.llf, rel=1e-11)


@pytest.mark.parametrize("solver", SOLVERS)
def test_all_events_in_one_interval(solver: str) -> None:
    frame = table()
    frame.loc[frame["event"] == 1, "time"] = 3 * WIDTH - 1
    ours = run(frame, solver=SOLVERS[solver])
    assert [row.events for row in ours.baseline if row.events] == [frame["event"].sum()]
    assert ours.converged
    theirs = binomial_glm(reference_rows(frame), frame[["a", "b"]].to_numpy(), "cloglog")
    np.testing.assert_allclose(ours.summary["coef"], theirs.coef, rtol=1e-6)


def test_one_center_may_have_all_the_events() -> None:
    frame = table()
    frame["center"] = np.where(frame["event"] == 1, "trauma", "hospice")
    ours, pooled = run(frame, center="center"), run(frame.drop(columns="center"))
    assert {row.name: row.events for row in ours.centers} == {
        "hospice": 0,
        "trauma": frame["event"].sum(),
    }
    assert_same(ours, pooled, ["a", "b"])


@pytest.mark.parametrize("horizon", [50.0, 60.0, 67.0])
@pytest.mark.parametrize("reading", READINGS)
def test_a_horizon_closes_the_last_interval_and_censors_what_comes_later(
    horizon: float, reading: str
) -> None:
    frame = table()
    ours = run(frame, grid={"width": WIDTH, "horizon": horizon}, censored_interval=reading)
    assert ours.edges[-1] == horizon
    assert (frame["time"] > horizon).sum() > 20
    rows = reference_rows(frame, reading, horizon=horizon)
    # An event after the horizon is none.
    inside = frame["event"].eq(1) & (frame["time"] <= horizon)
    assert ours.events == inside.sum()
    theirs = binomial_glm(rows, frame[["a", "b"]].to_numpy(), "cloglog")
    np.testing.assert_allclose(ours.summary["coef"], theirs.coef, rtol=1e-8)
    np.testing.assert_allclose(ours.summary["se(coef)"], theirs.se, rtol=1e-7)


# Penalty


def penalised_optimum(frame: pd.DataFrame, link: str, ridge: float) -> tuple[FloatArray, float]:
    """Coefficients and penalised loss by a general-purpose optimiser on the stack."""
    names = [name for name in frame if name not in {"time", "event"}]
    matrix, event, _ = design(reference_rows(frame), frame[names].to_numpy(np.float64))
    size = matrix.shape[1] - len(names)

    def loss(theta: FloatArray) -> tuple[float, FloatArray]:
        predictor, beta = matrix @ theta, theta[size:]
        v = np.exp(predictor)
        if link == "logit":
            cost = np.logaddexp(0, predictor) - event * predictor
            slope = 1 / (1 + np.exp(-predictor)) - event
        else:
            hazard = -np.expm1(-v)
            cost = np.where(event == 1, -np.log(hazard), v)
            slope = np.where(event == 1, v - v / hazard, v)
        gradient = matrix.T @ slope
        gradient[size:] += ridge * beta
        return float(cost.sum() + 0.5 * ridge * (beta**2).sum()), gradient

    start = np.zeros(matrix.shape[1]) - 1.0
    start[size:] = 0.0
    options: Any = {"gtol": 1e-12, "ftol": 1e-16, "maxiter": 5000, "maxcor": 50}
    found = minimize(loss, start, jac=True, method="L-BFGS-B", options=options)
    return found.x[size:], float(found.fun)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("link", GLM_LINKS)
@pytest.mark.parametrize("ridge", [0.3, 40.0])
def test_a_ridge_penalises_the_coefficients_as_given(
    link: str, ridge: float, solver: str
) -> None:
    frame = table()
    frame["b"] = 5 * frame["b"] + 100  # the penalty knows the unit, and not the origin
    ours = run(frame, ridge=ridge, link=link, solver=SOLVERS[solver])
    centered = frame.assign(b=frame["b"] - 100)
    expected, loss = penalised_optimum(centered, link, ridge)
    assert ours.converged
    np.testing.assert_allclose(ours.summary["coef"], expected, atol=1e-6)
    assert ours.likelihood_ratio is None
    penalty = 0.5 * ridge * float((ours.summary["coef"] ** 2).sum())
    assert penalty - ours.log_likelihood == pytest.approx(loss, rel=1e-10)


def test_a_ridge_shares_the_effect_between_equal_columns() -> None:
    frame = table()
    ours = run(frame.assign(again=frame["a"]), ridge=2.0)
    # Two columns of one value under ridge 2 act like one under ridge 1, each with half of it.
    single = run(frame.assign(a=frame["a"] * np.sqrt(2)), ridge=2.0)
    assert not told(ours, AliasedColumnsWarning)
    coef = ours.summary["coef"]
    assert coef["a"] == pytest.approx(coef["again"], rel=1e-9)
    assert coef["a"] * 2 == pytest.approx(
        single.summary.loc["a", "coef"] * np.sqrt(2), rel=1e-9
    )
    assert coef["b"] == pytest.approx(single.summary.loc["b", "coef"], rel=1e-9)
    assert_usable(ours)


@pytest.mark.parametrize("link", GLM_LINKS)
def test_standard_errors_under_a_ridge_come_from_the_penalised_information(link: str) -> None:
    frame = table()
    ours, plain = run(frame, ridge=30.0, link=link), run(frame, link=link)
    assert (ours.summary["se(coef)"] < plain.summary["se(coef)"]).all()
    assert (ours.summary["coef"].abs() < plain.summary["coef"].abs()).all()


# Missing values


def test_missing_drop_is_the_fit_of_the_complete_patients() -> None:
    frame = table()
    frame.loc[::9, "a"] = np.nan
    ours = run(frame.assign(center=np.arange(240) % 4), center="center", missing="drop")
    complete = run(frame.dropna())
    assert_same(ours, complete, ["a", "b"])
    assert sum(sum(row.dropped.values()) for row in ours.centers) == frame["a"].isna().sum()


def test_missing_mean_is_the_fit_with_the_mean_over_all_centers() -> None:
    frame = table()
    frame.loc[::9, "a"] = np.nan
    frame.loc[:30, "b"] = np.nan
    ours = run(frame.assign(center=np.arange(240) // 80), center="center", missing="mean")
    filled = run(frame.fillna(frame.mean()))
    assert_same(ours, filled, ["a", "b"])
    assert ours.concordance == pytest.approx(filled.concordance or 0, abs=1e-12)
    assert ours.coefficients[0].mean == pytest.approx(frame["a"].mean())


def test_cells_filled_with_the_mean_are_counted_by_column_and_center() -> None:
    frame = table()
    frame.loc[::9, "a"] = np.nan
    frame.loc[:30, "b"] = np.nan
    ours = run(frame.assign(center=np.arange(240) // 80), center="center", missing="mean")
    assert [dict(row.filled) for row in ours.centers] == [
        {"a": 9, "b": 31},
        {"a": 9},
        {"a": 9},
    ]
    note = told(ours, FilledCellsWarning)
    assert "27 cells of column 'a' and 31 cells of column 'b'" in note
    assert not told(run(table(), missing="mean"), FilledCellsWarning)
    assert not told(run(frame, missing="drop"), FilledCellsWarning)


# Not there yet


@pytest.mark.parametrize(
    "solver",
    [
        {"method": "newton", "max_rounds": 2},
        {"method": "newton", "max_rounds": 1},
        {"method": "lbfgs", "max_rounds": 3},
        {"method": "lbfgs", "max_rounds": 1},
        {"method": "adam", "steps": 5},
    ],
)
def test_a_search_cut_short_says_so_and_gives_what_it_has(solver: dict[str, Any]) -> None:
    ours = run(table(), solver=solver)
    assert not ours.converged
    assert "before it reached the optimum" in told(ours, NotConvergedWarning)
    assert_usable(ours)


def test_warnings_are_raised_as_python_warnings_under_the_same_names() -> None:
    frame = table().assign(same=1.0)
    study = Study(
        outcome={"time": "time", "event": "event"},
        covariates=["a", "b", "same"],
        grid={"width": 1},
    )
    with pytest.warns(FedcoxWarning) as caught:
        ours = fit(study, InProcess.from_frame(study, frame))
    assert [type(entry.message).__name__ for entry in caught] == [
        note.name for note in ours.notices
    ]
    assert caught[0].filename == __file__


# Errors


@pytest.mark.parametrize(
    ("change", "grid", "said"),
    [
        ({"event": 0}, {"width": 20}, "No center has an event"),
        ({"event": 0}, {"times": "events"}, "No center has an event"),
        ({"time": 30, "event": 1}, {"width": 20}, "everyone at risk has the event"),
        ({}, {"width": 1, "horizon": 0.5}, "up to the horizon of 0.5"),
        ({}, {"times": "events", "horizon": 0.5}, "up to the horizon of 0.5"),
    ],
)
def test_patients_without_information_are_an_error_in_words(
    change: dict[str, Any], grid: dict[str, Any], said: str
) -> None:
    with pytest.raises(CohortError, match=said):
        run(table().assign(**change), grid=grid)


@pytest.mark.parametrize("event", [0, 1])
@pytest.mark.parametrize("grid", [{"width": 20}, {"times": "events"}])
def test_one_patient_is_an_error_in_words(event: int, grid: dict[str, Any]) -> None:
    with pytest.raises(CohortError, match=r"1 patient\(s\)"):
        run(table().head(1).assign(event=event), grid=grid)


def test_two_patients_are_enough_to_try() -> None:
    frame = pd.DataFrame({"x": [0.0, 1.0], "time": [10, 30], "event": [1, 0]})
    assert_usable(run(frame))


def test_everyone_at_time_zero_is_about_events_and_not_about_the_grid() -> None:
    with pytest.raises(CohortError, match="event"):
        run(table().assign(time=0, event=0))
