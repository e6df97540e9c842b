"""Exact time on data that break careless programs, against R's words or by hand."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from lifelines import CoxPHFitter

import fedcox
from fedcox.errors import (
    CoarseTimeWarning,
    CohortError,
    FedcoxWarning,
    JoinedIntervalsWarning,
    LateEventsWarning,
    SeparationWarning,
    StudyError,
)
from fedcox.study.fitted import FittedStudy
from tests.problems import simulated


def table(patients: int = 200, seed: int = 3) -> pd.DataFrame:
    cohort = simulated(patients, 2, seed=seed)
    frame = pd.DataFrame(cohort.covariates, columns=["a", "b"])
    return frame.assign(time=cohort.time, event=cohort.event.astype(int))


def run(frame: pd.DataFrame, center: str | None = None, **tables: Any) -> FittedStudy:
    outcome = {"time": "time", "event": "event", **tables.pop("outcome", {})}
    names = [name for name in frame if name not in {"time", "event", "center"}]
    study = fedcox.Study(outcome=outcome, covariates=names, **tables)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FedcoxWarning)
        return fedcox.fit(study, fedcox.InProcess.from_frame(study, frame, center))


def told(fitted: FittedStudy, warning: type[FedcoxWarning]) -> str:
    return "".join(note.text for note in fitted.notices if note.name == warning.__name__)


def distance(fitted: FittedStudy, frame: pd.DataFrame) -> float:
    """From Efron's Cox, in its standard errors."""
    cox = CoxPHFitter().fit(frame, "time", "event").summary
    return float(((fitted.summary["coef"] - cox["coef"]) / cox["se(coef)"]).abs().max())


def test_ties_are_efrons() -> None:
    frame = table(400).assign(time=lambda frame: np.ceil(frame["time"] / 6))
    assert frame.groupby("time")["event"].sum().max() > 30
    edges = sorted(frame["time"].unique())
    every, pieces = run(frame), run(frame, grid={"edges": edges})
    assert every.every_event_time
    assert not told(every, CoarseTimeWarning)
    assert distance(every, frame) < 0.02
    assert distance(pieces, frame) < 0.2
    # Without the middle of the unit, edges at the event times would make them Breslow's.
    breslow = run(frame, outcome={"resolution": 1e-4}, grid={"edges": edges})
    assert distance(breslow, frame) > 2 * distance(pieces, frame)


@pytest.mark.parametrize(("times", "every"), [(400, True), (401, False)])
def test_up_to_four_hundred_event_times_have_a_piece_each(times: int, every: bool) -> None:
    frame = pd.DataFrame({"time": np.arange(1, times + 1), "event": 1})
    fitted = run(frame.assign(a=np.random.default_rng(1).normal(size=times)))
    assert fitted.every_event_time == every


def test_where_ties_decide_the_fit_says_so() -> None:
    frame = table(400).assign(time=lambda frame: np.ceil(frame["time"] / 40))
    fitted = run(frame)
    assert "depend on how ties are treated" in told(fitted, CoarseTimeWarning)
    assert distance(fitted, frame) < 0.02  # Efron's all the same
    one_day = frame.assign(time=frame["time"].where(frame["event"] == 0, 2))
    assert distance(run(one_day), one_day) < 0.1


def test_nobody_can_have_the_event_before_some_day() -> None:
    """Time at risk before the first event says nothing of the hazard after it."""
    frame = table().assign(time=lambda frame: frame["time"] + 500)
    assert distance(run(frame), frame) < 0.01
    for grid in ({}, {"pieces": 12}):
        np.testing.assert_allclose(
            run(frame, grid=grid).summary["coef"],
            run(table(), grid=grid).summary["coef"],
            rtol=1e-9,
        )
    masked = run(
        frame.assign(center=np.arange(len(frame)) % 4),
        center="center",
        privacy={"secure_sums": True, "noise": "none"},
    )
    assert distance(masked, frame) < 0.2


def test_all_events_on_one_day() -> None:
    frame = table()
    frame.loc[frame["event"] == 1, "time"] = 40
    fitted = run(frame)
    assert fitted.converged
    assert "depend on how ties are treated" in told(fitted, CoarseTimeWarning)


def test_one_event() -> None:
    frame = table().assign(event=0)
    frame.loc[7, "event"] = 1
    fitted = run(frame)
    assert np.isfinite(fitted.summary["coef"]).all()
    assert told(fitted, SeparationWarning)  # one patient against all others


def test_a_level_without_events_is_named() -> None:
    frame = table()
    frame["rare"] = 0.0
    frame.loc[np.flatnonzero(frame["event"] == 0)[:20], "rare"] = 1.0
    fitted = run(frame)
    assert "coefficient of rare" in told(fitted, SeparationWarning)
    assert "grows without bound" in fitted.ending


@pytest.mark.parametrize("grid", [{}, {"pieces": 5}, {"width": 30}, {"edges": [30, 100, 900]}])
def test_no_events_is_an_error_in_words(grid: dict[str, Any]) -> None:
    with pytest.raises(CohortError, match="No center has an event"):
        run(table().assign(event=0), grid=grid)


def test_edges_beyond_every_event_or_before_it_are_an_error_or_a_notice() -> None:
    frame = table()
    with pytest.raises(CohortError, match=r"No center has an event up to the horizon of 0\.5"):
        run(frame, grid={"edges": [0.25, 0.5]}, outcome={"resolution": 0.25})
    fitted = run(frame, grid={"edges": [50, 5000, 6000]})
    assert "1 of 3 pieces had no event" in told(fitted, JoinedIntervalsWarning)
    assert [row.hazard > 0 for row in fitted.baseline] == [True, True]
    assert run(frame, grid={"horizon": 5000}).horizon == frame["time"].max()
    assert "One piece holds" in told(run(frame, grid={"edges": [5000]}), CoarseTimeWarning)


def test_named_pieces_before_the_first_event_do_not_thin_the_hazard_of_the_next() -> None:
    frame = table(400).assign(time=lambda frame: frame["time"] + 300)
    late = run(frame, grid={"edges": [100, 300, 320, 340, 380, 1000]})
    plain = run(table(400), grid={"edges": [20, 40, 80, 700]})
    np.testing.assert_allclose(late.summary["coef"], plain.summary["coef"], rtol=1e-9)
    between = run(
        frame, grid={"edges": [300, 320, 320.5, 340, 1000]}, outcome={"resolution": 0.5}
    )
    assert "of 5 pieces had no event" in told(between, JoinedIntervalsWarning)


def test_more_pieces_than_events_are_an_error_in_words() -> None:
    with pytest.raises(StudyError, match="pieces = 500 is more than there are events"):
        run(table(), grid={"pieces": 500})


def test_more_pieces_than_event_times_are_as_many_as_there_are_times() -> None:
    frame = table(400).assign(time=lambda frame: np.ceil(frame["time"] / 25))
    assert run(frame, grid={"pieces": 60}).every_event_time


def test_a_grid_of_more_than_ten_thousand_intervals_is_refused_with_the_reason() -> None:
    with pytest.raises(StudyError, match=r"more than 10,000") as refused:
        run(table(), grid={"width": 0.01})
    assert "another unit than the width" in refused.value.faults[0]


@pytest.mark.parametrize("link", ["log", "cloglog", "logit"])
def test_events_beyond_the_horizon_are_counted_and_told(link: str) -> None:
    frame = table()
    fitted = run(frame, grid={"width": 10, "horizon": 60}, model={"link": link})
    late = int(((frame["time"] > 60) & (frame["event"] == 1)).sum())
    passed = int((frame["time"] > 60).sum())
    assert late > 5
    text = told(fitted, LateEventsWarning)
    assert f"{late} events after the horizon of 60 do not count: {passed} patients" in text
    assert not told(run(frame, grid={"width": 10}, model={"link": link}), LateEventsWarning)


def test_grouped_time_says_when_it_may_mislead() -> None:
    frame = table(600)
    wide = run(frame, grid={"width": 100}, model={"link": "cloglog"})
    assert "the largest hazard of an interval is" in told(wide, CoarseTimeWarning)
    assert distance(wide, frame) > 0.5
    narrow = run(frame, grid={"width": 2}, model={"link": "cloglog"})
    assert not told(narrow, CoarseTimeWarning)
    assert distance(narrow, frame) < 0.5
    assert "its hazard is taken as constant" in told(
        run(frame, grid={"width": 100}), CoarseTimeWarning
    )
    assert not told(run(frame, grid={"width": 20}), CoarseTimeWarning)
    assert distance(run(frame, grid={"width": 100}), frame) < distance(wide, frame) / 3


def test_time_zero_counts_in_the_first_unit_where_the_study_allows_it() -> None:
    frame = table().assign(time=lambda frame: np.maximum(frame["time"] - 1, 0))
    assert ((frame["time"] == 0) & (frame["event"] == 1)).any()
    with pytest.raises(CohortError, match="follow-up time of zero"):
        run(frame)
    kept = run(frame, outcome={"zero_times": "first_interval"})
    assert kept.events == frame["event"].sum()


def test_numbers_at_risk_are_true_at_the_times_shown() -> None:
    frame = table(300)
    for grid in ({}, {"pieces": 6}, {"edges": [33.0, 77.0, 400.0]}):
        fitted = run(frame, grid=grid)
        assert len(fitted.risk_table) > 2
        for row in fitted.risk_table:
            assert row.at_risk == (frame["time"] > row.time).sum()
            assert row.events == ((frame["time"] <= row.time) & (frame["event"] == 1)).sum()


def test_years_with_decimals_are_taken_in_the_unit_they_were_recorded_in() -> None:
    frame = table(300)
    years = frame.assign(time=frame["time"] / 365.25)
    fitted = run(years)
    assert fitted.resolution == pytest.approx(1 / 365.25)
    np.testing.assert_allclose(fitted.summary["coef"], run(frame).summary["coef"], rtol=1e-9)
    rng = np.random.default_rng(0)
    exact = years.assign(time=years["time"] * rng.uniform(0.9, 1.1, len(years)))
    assert run(exact).resolution is None
    assert distance(run(exact), exact) < 1e-3


def test_curves_of_covariates_far_from_zero_are_those_of_covariates_near_it() -> None:
    """At year 0 the hazard is beyond any number; nobody lives there."""
    frame = table(300)
    frame["b"] = np.round(frame["b"])
    years = frame.assign(b=frame["b"] * 3 + 2020)
    near, far = run(frame), run(years)
    times = [20.0, 60.0, 110.0]
    for ours, theirs in (
        (far.predict_survival(years, times), near.predict_survival(frame, times)),
        *zip(
            far.predict_survival_band(years, times) or (),
            near.predict_survival_band(frame, times) or (),
            strict=True,
        ),
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(far.predict_median(years), near.predict_median(frame), rtol=1e-6)
    steep = run(frame.assign(b=frame["b"] * 1e-3 + 2020))
    assert np.isfinite(steep.predict_survival(frame.assign(b=2020.0), times)).all(axis=None)
    assert steep.intervals == near.intervals
    model = fedcox.ProportionalHazards().fit(
        frame[["a", "b"]] * [1, 1e-3] + [0, 2020], (frame["time"], frame["event"])
    )
    curve = model.predict_survival_function(np.array([[0.0, 2020.0]]))[0]
    expected = near.predict_survival(pd.DataFrame({"a": [0.0], "b": [0.0]}), times)
    np.testing.assert_allclose(curve(times), expected.to_numpy()[0], rtol=1e-4)
    assert model.log_likelihood_ == pytest.approx(near.log_likelihood, abs=1e-6)


def test_early_bands_are_as_wide_as_the_events_so_far_say() -> None:
    """1 / √events, where hardly anybody is left at the end."""
    rng = np.random.default_rng(4)
    x = rng.normal(size=2000)
    frame = pd.DataFrame({"x": x, "time": np.ceil(rng.exponential(1000, 2000)), "event": 1})
    fitted = run(frame)
    for day in (9.0, 85.0, 400.0):
        low, high = fitted.survival_band(np.array([[0.0]]), [day]) or (None, None)
        assert low is not None
        assert high is not None
        survival = fitted.survival(np.array([[0.0]]), [day])[0, 0]
        width = (np.log(-np.log(low[0, 0])) - np.log(-np.log(high[0, 0]))) / 2 / 1.96
        events = int((frame["time"] <= day).sum())
        assert width == pytest.approx(1 / np.sqrt(events), rel=0.15)
        assert low[0, 0] < survival < high[0, 0]


def test_events_at_time_zero_count_among_those_at_risk() -> None:
    """As R has them, at the first of all times."""
    frame = table().assign(time=lambda frame: frame["time"] + np.linspace(0, 0.5, len(frame)))
    frame.loc[frame.index[frame["event"] == 1][:20], "time"] = 0.0
    fitted = run(frame, outcome={"zero_times": "first_interval"})
    cox = CoxPHFitter().fit(
        frame.assign(time=frame["time"].replace(0.0, 1e-3)), "time", "event"
    )
    assert distance(fitted, frame.assign(time=frame["time"].replace(0.0, 1e-3))) < 0.02
    assert fitted.likelihood_ratio is not None
    theirs = cox.log_likelihood_ratio_test().test_statistic
    assert fitted.likelihood_ratio["statistic"] == pytest.approx(theirs, rel=0.02)
    assert fitted.log_likelihood == pytest.approx(cox.log_likelihood_, abs=0.1)


@pytest.mark.parametrize("grid", [{}, {"pieces": 9}, {"width": 14}])
def test_a_horizon_inside_a_unit_counts_no_event_after_it(grid: dict[str, Any]) -> None:
    weekly = table(300).assign(time=lambda frame: 7 * np.ceil(frame["time"] / 7))
    fitted = run(weekly, grid={**grid, "horizon": 100})
    assert fitted.resolution == 7
    assert fitted.events == ((weekly["time"] <= 100) & (weekly["event"] == 1)).sum()
    assert fitted.horizon == 98


def test_between_hospitals_a_few_fractions_do_not_hide_the_unit() -> None:
    frame = table(600).assign(time=lambda frame: np.ceil(frame["time"] / 4))
    whole = frame.assign(center=np.arange(600) % 5)
    mixed = whole.copy()
    mixed.loc[0, "time"] = 3.5
    secure: dict[str, Any] = {
        "center": "center",
        "privacy": {"secure_sums": True, "noise": "none", "longest": 1e6},
    }
    one, other = run(whole, **secure), run(mixed, **secure)
    assert one.resolution == other.resolution == 1
    assert distance(one, frame) < 0.3
    for factor in (1 / 12, 1 / 1000, 365.25, 1 / 365.25):
        scaled = whole.assign(time=whole["time"] * factor)
        again = run(scaled, outcome={"max": float(scaled["time"].max())}, **secure)
        assert again.resolution == pytest.approx(factor)
        se = one.summary["se(coef)"]
        assert ((again.summary["coef"] - one.summary["coef"]).abs() < 0.05 * se).all()


# The unit of the record, between hospitals.


def trial(patients: int, last: float, unit: float = 1.0, seed: int = 0) -> pd.DataFrame:
    """Recorded in whole units; who has no event until then is censored at the last of them."""
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(2, patients))
    time = unit * np.ceil(rng.exponential(10 * last * np.exp(-0.7 * a - 0.2 * b)) / unit)
    frame = pd.DataFrame({"a": a, "b": b, "time": np.minimum(time, last)})
    return frame.assign(event=(time <= last).astype(int), center=np.arange(patients) % 4)


MASKED = {"privacy": {"secure_sums": True, "noise": "none"}}


def test_a_day_on_which_a_trial_ends_is_not_taken_for_the_unit_of_its_times() -> None:
    frame = trial(3000, 365.0)
    assert (frame["time"] == 365).mean() > 0.85
    masked, plain = run(frame, "center", **MASKED), run(frame.drop(columns="center"))
    assert masked.resolution == plain.resolution == 1.0
    assert distance(masked, frame.drop(columns="center")) < 0.05
    patient, times = frame[:1], [30.0, 90.0, 360.0]
    np.testing.assert_allclose(
        masked.predict_survival(patient, times),
        plain.predict_survival(patient, times),
        atol=4e-3,
    )


@pytest.mark.parametrize("grid", [{}, {"width": 1}, {"edges": [1, 2, 3, 4, 5]}])
def test_who_is_censored_at_the_end_of_a_unit_was_at_risk_to_its_end(
    grid: dict[str, Any],
) -> None:
    """In whole years, everybody to the end of the fifth: as in Cox's risk sets."""
    frame = trial(3000, 5.0)
    pooled = frame.drop(columns="center")
    times = [1.0, 3.0, 4.0, 5.0]
    cox = CoxPHFitter().fit(pooled, "time", "event")  # its curve is Breslow's
    expected = run(pooled).predict_survival(pooled[:3], times)
    np.testing.assert_allclose(
        expected, cox.predict_survival_function(pooled[:3], times).T, atol=4e-3
    )
    for fitted in (run(pooled, grid=grid), run(frame, "center", grid=grid, **MASKED)):
        np.testing.assert_allclose(
            fitted.predict_survival(pooled[:3], times), expected, atol=5e-4
        )


@pytest.mark.parametrize("factor", [1e-9, 1e-7, 1e-4, 1.0])
def test_times_far_below_any_usual_unit_have_none(factor: float) -> None:
    frame = table(400).assign(center=np.arange(400) % 4)
    small = frame.assign(time=frame["time"] * factor)
    fitted = run(small, "center", **MASKED)
    assert (fitted.resolution is None) == (factor < 1e-3)
    assert distance(fitted, small.drop(columns="center")) < 0.2


@pytest.mark.parametrize("tables", [{}, MASKED])
def test_a_horizon_inside_a_unit_is_never_passed(tables: dict[str, Any]) -> None:
    frame = trial(2000, 60.0)
    outcome = {"resolution": 7}
    fitted = run(frame, "center", outcome=outcome, grid={"horizon": 10}, **tables)
    assert fitted.horizon == 7.0
    events = sum(row.events or 0 for row in fitted.baseline)
    assert events == int(((frame["time"] <= 7) & (frame["event"] == 1)).sum())
    with pytest.raises(StudyError, match="inside the first unit of the record"):
        run(frame, "center", outcome=outcome, grid={"horizon": 5}, **tables)


@pytest.mark.parametrize(
    "tables",
    [
        {"grid": {"edges": [30, 5000]}},
        {"grid": {"width": 1000, "horizon": 5000}},
        {"grid": {"edges": [30, 5000]}, **MASKED},
        {"grid": {"width": 20, "horizon": 5000}, "model": {"link": "cloglog"}},
    ],
)
def test_pieces_named_beyond_follow_up_end_where_it_does(tables: dict[str, Any]) -> None:
    frame = table(300).assign(center=np.arange(300) % 4)
    longest = frame["time"].max()
    fitted = run(frame, "center", **tables)
    slack = 20.0 if "model" in tables else 0.02 * longest  # an interval, or a cell
    assert longest <= fitted.horizon <= longest + slack
    times = [row.time for row in fitted.risk_table]
    assert len(times) == len(set(times))


def test_the_highest_risk_dies_at_the_first_chance_and_not_before() -> None:
    frame = table(200).assign(time=lambda frame: frame["time"] + 5)
    fitted = run(frame)
    extreme = frame[:1].assign(a=-9e4, b=9e4)
    curve = fitted.predict_survival(extreme, [0.0, 1.0, 5.0, 60.0]).to_numpy()[0]
    np.testing.assert_array_equal(curve, [1.0, 1.0, 1.0, 0.0])
    assert fitted.predict_median(extreme).iloc[0] >= 5.0
    model = fedcox.ProportionalHazards().fit(frame[["a", "b"]], (frame["time"], frame["event"]))
    (function,) = model.predict_survival_function(extreme[["a", "b"]])
    np.testing.assert_array_equal(function([0.0, 1.0, 60.0]), [1.0, 1.0, 0.0])


@pytest.mark.parametrize("link", ["cloglog", "logit"])
def test_events_at_the_end_of_the_last_interval_count_whatever_its_digits(link: str) -> None:
    """Three widths of 0.3 are 0.8999999999999999: the events at 0.9 are no later."""
    frame = trial(600, 9.0).drop(columns="center")
    frame["time"] = frame["time"] / 10
    grids = ({"width": 0.3}, {"width": 0.3, "horizon": 0.9}, {"width": 0.3, "horizon": 3.0})
    fits = [run(frame, grid=grid, model={"link": link}) for grid in grids]
    assert not any(told(fitted, LateEventsWarning) for fitted in fits)
    for fitted in fits[1:]:
        np.testing.assert_allclose(fitted.summary["coef"], fits[0].summary["coef"], rtol=1e-9)


def test_nobody_is_kept_to_the_next_visit() -> None:
    """Events are seen every 30 days, patients leave on any day: these count to their day."""
    rng = np.random.default_rng(2)
    a, b = rng.normal(size=(2, 1500))
    visit = 30 * np.ceil(rng.exponential(6 * np.exp(-0.5 * a)))
    leaving = np.ceil(rng.uniform(0, 210, 1500))
    frame = pd.DataFrame({"a": a, "b": b, "time": np.minimum(visit, leaving)})
    frame["event"] = (visit <= leaving).astype(int)
    masked = run(frame.assign(center=np.arange(1500) % 4), "center", **MASKED)
    times = [30.0, 60.0, 120.0, 180.0]
    found = masked.predict_survival(frame[:1], times).to_numpy()[0]
    expected = run(frame).predict_survival(frame[:1], times).to_numpy()[0]
    assert np.abs(found - expected).max() < 0.06


@pytest.mark.parametrize("visit", [3.0, 12.0, 14.0, 91.0])
def test_between_hospitals_visits_every_so_many_days_are_the_unit(visit: float) -> None:
    frame = trial(3000, 8 * visit, unit=visit)
    masked = run(frame, "center", **MASKED)
    assert masked.resolution == visit
    assert distance(masked, frame.drop(columns="center")) < 0.05


def test_few_events_do_not_make_an_unusual_unit() -> None:
    """Nine of ten days may be even by chance; a week, among the usual units, is believed."""
    even = trial(200, 40.0, unit=2.0)
    assert 9 < even["event"].sum() < 30
    assert run(even, "center", **MASKED).resolution == 1.0
    weekly = trial(200, 70.0, unit=7.0)
    assert run(weekly, "center", **MASKED).resolution == 7.0


@pytest.mark.parametrize("digits", [9, 10, 11])
def test_days_written_as_years_stand_in_their_own_day_whatever_the_digits(digits: int) -> None:
    days = trial(600, 700.0)
    years = days.assign(time=(days["time"] / 365.25).round(digits))
    expected = run(days, "center", outcome={"resolution": 1}, **MASKED).summary["coef"]
    for outcome in ({"resolution": 1 / 365.25}, {}):
        fitted = run(years, "center", outcome=outcome, **MASKED)
        assert not told(fitted, LateEventsWarning)
        np.testing.assert_allclose(fitted.summary["coef"], expected, rtol=1e-9)


def test_bounds_that_differ_by_rounding_are_one() -> None:
    """Three widths of 0.3 end before 0.9, where some events are, and where round times fall."""
    frame = table(600).assign(center=np.arange(600) % 4)
    exact = frame["time"] - np.random.default_rng(1).uniform(0, 1, 600)  # in no unit
    frame["time"] = exact / exact.max() * 3.0
    frame.loc[frame["time"].between(0.8, 1.0), "time"] = 0.9
    found = run(frame, "center", grid={"width": 0.3, "horizon": 3.0}, **MASKED)
    expected = run(frame, grid={"edges": (0.3 * np.arange(1, 11)).round(9).tolist()})
    np.testing.assert_allclose(found.summary["coef"], expected.summary["coef"], rtol=1e-6)


def coarse(unit: float, patients: int = 1500) -> pd.DataFrame:
    """Follow-up of about four years, recorded in such parts of a year."""
    rng = np.random.default_rng(8)
    a, b = rng.normal(size=(2, patients))
    event = rng.exponential(2 * np.exp(-0.5 * a + 0.3 * b))
    leaving = rng.uniform(0.5, 5, patients)
    time = unit * np.ceil(np.minimum(event, leaving) / unit)
    frame = pd.DataFrame({"a": a, "b": b, "time": time, "event": 1 * (event <= leaving)})
    return frame.assign(center=np.arange(patients) % 4)


@pytest.mark.parametrize("parts", [4, 3, 6, 5, 12, 52])
def test_parts_of_a_year_are_a_unit_between_hospitals_too(parts: int) -> None:
    frame = coarse(1 / parts)
    masked = run(frame, "center", **MASKED)
    assert masked.resolution == pytest.approx(1 / parts)
    assert distance(masked, frame.drop(columns="center")) < 0.1


def test_visits_in_weeks_are_a_unit_also_where_they_are_written_in_years() -> None:
    frame = coarse(12 * 7 / 365.25)
    masked = run(frame, "center", **MASKED)
    assert masked.resolution == pytest.approx(12 * 7 / 365.25)


def test_many_events_on_one_date_are_no_visits() -> None:
    """All others are on any day: the date is not the unit, and the fit says what it is."""
    frame = coarse(1 / 365.25)
    frame["time"] = (365.25 * frame["time"]).round()
    chosen = (frame["event"] == 1) & (np.random.default_rng(5).uniform(size=len(frame)) < 0.93)
    frame.loc[chosen, "time"] = 300
    masked = run(frame, "center", **MASKED)
    assert masked.resolution == 1.0
    assert "depend on how ties are treated" in told(masked, CoarseTimeWarning)


def test_times_that_crowd_are_told() -> None:
    """In no unit that is looked for: the tied events are Breslow's, and the fit says so."""
    frame = coarse(0.37)
    masked = run(frame, "center", **MASKED)
    assert "name [outcome] resolution" in told(masked, CoarseTimeWarning)
    for unit in (1 / 12, 1e-9):
        whole = run(coarse(unit), "center", **MASKED)
        assert not told(whole, CoarseTimeWarning)


def test_one_odd_time_among_many_is_no_finer_unit() -> None:
    days = coarse(1 / 365.25, 6000).drop(columns="center")
    days["time"] = (365.25 * days["time"]).round()
    odd = days.copy()
    odd.loc[5, "time"] = np.pi
    assert days["time"][days["event"] == 1].nunique() > 400
    assert run(odd).resolution == run(days).resolution == 1.0


def test_the_last_of_the_edges_may_be_for_ever() -> None:
    frame = trial(600, 900.0).drop(columns="center")
    ends = [100.0, 300.0, 600.0]
    fits = [run(frame, grid={"edges": [*ends, last]}) for last in (1e5, 1e9)]
    for fitted in fits:
        np.testing.assert_array_equal(fitted.edges[:3], ends)
        np.testing.assert_allclose(fitted.summary["coef"], fits[0].summary["coef"], rtol=1e-12)


@pytest.mark.parametrize("seed", range(6))
def test_round_times_of_a_table_bound_no_piece(seed: int) -> None:
    """They are others in another unit of time, and the pieces are the same."""
    frame = table(150, seed).assign(center=np.arange(150) % 5)
    fits = []
    for factor in (1.0, 365.25):
        other = frame.assign(time=frame["time"] * factor)
        outcome = {"resolution": factor}
        privacy = {"secure_sums": True, "noise": "none", "longest": 18262.0 * factor}
        fits.append(run(other, "center", outcome=outcome, privacy=privacy))
    np.testing.assert_allclose(fits[1].edges, 365.25 * fits[0].edges, rtol=1e-12)
    np.testing.assert_allclose(fits[1].summary["coef"], fits[0].summary["coef"], atol=1e-9)


def test_a_unit_beyond_all_follow_up_is_an_error_in_words() -> None:
    for tables in ({}, MASKED):
        with pytest.raises(StudyError, match=r"inside the first unit of the record"):
            run(
                table().assign(center=np.arange(200) % 4),
                "center",
                outcome={"resolution": 1e9},
                **tables,
            )


def test_times_that_differ_by_rounding_are_one() -> None:
    frame = table(60)
    frame["time"] = np.random.default_rng(1).exponential(1, 60)
    frame["event"] = 1
    same, apart = frame.copy(), frame.copy()
    same.loc[:3, "time"] = 0.3
    apart.loc[:1, "time"], apart.loc[2:3, "time"] = 0.1 + 0.2, 0.3
    np.testing.assert_allclose(
        run(apart).summary["coef"], run(same).summary["coef"], rtol=1e-12
    )


def test_how_far_follow_up_reaches_is_looked_for_on_no_more_intervals_than_a_grid_has() -> None:
    frame = coarse(1 / 365.25)
    grid, model = {"width": 0.25}, {"link": "cloglog"}
    fitted = run(frame, "center", grid=grid, model=model, **MASKED)
    assert fitted.horizon == pytest.approx(frame["time"].max(), abs=0.25)
