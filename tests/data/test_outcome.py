"""Columns that cannot hold follow-up times, or hardly can."""

from __future__ import annotations

import re
import warnings
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedcox.data.cohort_file import read_cohort
from fedcox.data.encoding import LoadedCohort, cohort_from_frame, cohorts_by_center
from fedcox.data.outcome import in_a_year
from fedcox.data.schema import CohortSchema, NumberColumn
from fedcox.engines.in_process import InProcess
from fedcox.errors import CohortError, DoubtfulTimesWarning
from fedcox.study.study import Study

SCHEMA = CohortSchema(time="t", event="e", covariates=(NumberColumn("x"),))
SPREADSHEET_ZERO = date(1899, 12, 30)


def table(times: Any) -> pd.DataFrame:
    size = len(times)
    return pd.DataFrame({"t": times, "e": np.arange(size) % 2, "x": np.arange(size) * 1.5})


def load(times: Any, **schema: Any) -> LoadedCohort:
    return cohort_from_frame(table(times), replace(SCHEMA, **schema), source="A")


def the_fault(times: Any, **schema: Any) -> str:
    with pytest.raises(CohortError) as raised:
        load(times, **schema)
    (fault,) = raised.value.faults
    return fault


def the_doubt(times: Any, **schema: Any) -> str:
    with pytest.warns(DoubtfulTimesWarning) as caught:
        load(times, **schema)
    (warning,) = caught
    return str(warning.message)


def days_of(first: date, last: date, number: int = 40) -> list[date]:
    step = (last - first) / (number - 1)
    return [first + timedelta(days=round(place * step.days)) for place in range(number)]


def serials(first: date, last: date) -> list[int]:
    return [(day - SPREADSHEET_ZERO).days for day in days_of(first, last)]


# The study's own range


def test_times_outside_the_studys_range_are_counted_by_every_way_of_loading(
    tmp_path: Path,
) -> None:
    tables = {
        "outcome": {"time": "t", "event": "e", "unit": "days", "min": 5, "max": 1000},
        "covariates": ["x"],
        "grid": {"width": 30},
    }
    study = Study(**tables)
    frame = table([4, 5, 1000, 1001, 2000]).assign(center="A")
    frame.to_csv(tmp_path / "a.csv", index=False)
    words = (
        r"Column 't': 3 values lie outside the study's range \((rows 1, 4, 5|lines 2, 5, 6)\); "
        r"the study has min = 5 and max = 1000"
    )
    for way in (
        lambda: read_cohort(tmp_path / "a.csv", study.schema),
        lambda: cohort_from_frame(frame, study.schema, source="A"),
        lambda: cohorts_by_center(frame, study.schema, center="center", source="A"),
        lambda: InProcess.from_frame(study, {"A": frame}),
    ):
        with pytest.raises(CohortError, match=words):
            way()


def test_a_time_of_zero_has_its_own_rule_whatever_the_range() -> None:
    loaded = load([0, 10, 20], shortest=5.0, zero_times="drop")
    assert loaded.dropped == {"zero follow-up time": 1}
    assert "follow-up time of zero" in the_fault([0, 10, 20], shortest=5.0)
    assert "negative follow-up time" in the_fault([-3, 10, 20], shortest=5.0)


@pytest.mark.parametrize("time", [0, 0.0, "0", -1, "-0.5"])
def test_a_time_of_zero_or_below_is_a_fault(time: Any) -> None:
    fault = the_fault([time, 10, 20], unit="days")
    assert re.match(r"Column 't': 1 patient has a (negative )?follow-up time", fault)


@pytest.mark.parametrize(("wrong", "rows"), [(5, "1, 2, 3, 4, 5"), (6, "1, 2, 3, 4, 5, …")])
def test_the_first_five_places_of_a_fault_are_named(wrong: int, rows: str) -> None:
    assert f"(rows {rows})" in the_fault([-1] * wrong + [10])


# Longer than a life


@pytest.mark.filterwarnings("ignore::fedcox.errors.DoubtfulTimesWarning")
@pytest.mark.parametrize(
    ("unit", "longest"),
    [("hours", 1_078_000), ("days", 44_900), ("Week", 6_400), ("month", 1_475), ("years", 123)],
)
def test_more_than_a_lifetime_in_the_stated_unit_is_refused(unit: str, longest: int) -> None:
    usual = [longest / 40, longest / 30, longest / 20]
    assert load([*usual, longest], unit=unit).cohort.patients == 4
    fault = the_fault([*usual, 1.01 * longest], unit=unit)
    assert f"1 patient has a follow-up time of more than 123 years, counted in {unit}" in fault
    assert "check the unit" in fault
    assert "give a max that allows them in the study's [outcome]" in fault
    assert load([*usual, 1.01 * longest], unit=unit, longest=1e9).cohort.patients == 4


@pytest.mark.parametrize("unit", [None, "cycles", "units of time"])
def test_an_unknown_unit_has_no_lifetime(unit: str | None) -> None:
    assert load([100.0, 2_000.0, 5e6], unit=unit).cohort.patients == 3
    assert in_a_year(unit) is None


# Dates


@pytest.mark.parametrize("unit", [None, "days", "years", "cycles"])
def test_dates_in_eight_digits_are_named(unit: str | None) -> None:
    dates = [int(day.strftime("%Y%m%d")) for day in days_of(date(1999, 1, 5), date(2024, 6, 1))]
    fault = the_fault(dates, unit=unit)
    assert "40 times seem to be dates, written as yyyymmdd" in fault
    assert f"compute the {unit or 'days'} between two dates" in fault
    assert "40 times seem to be dates" in the_fault([str(day) for day in dates], unit=unit)


def test_a_single_date_among_times_is_named() -> None:
    assert "1 time seems to be a date, written as yyyymmdd (row 3)" in the_fault(
        [400, 12, 20190314, 3000]
    )


@pytest.mark.parametrize(
    ("number", "is_date"),
    [(17_991_231, False), (18_000_101, True), (21_001_231, True), (21_010_101, False)],
)
def test_dates_in_eight_digits_are_of_years_from_1800_to_2100(
    number: int, is_date: bool
) -> None:
    times = [400, 12, number, 3000]
    if is_date:
        assert "1 time seems to be a date, written as yyyymmdd" in the_fault(times)
    else:
        assert load(times).cohort.patients == 4


def test_numbers_that_are_no_days_of_a_calendar_are_no_dates() -> None:
    seconds = [20_191_314.0, 19_990_041.0, 15_000_101.0, 20_200_230.5, 20_181_199.0]
    assert load(seconds).cohort.patients == 5


@pytest.mark.parametrize(
    "cells",
    [
        ["2019-03-14", "2019-03-15"],
        ["14.03.2019", "15.03.2019"],
        ["3/14/2019", "3/15/19"],
        ["14MAR2019", "15-Mar-2019"],
        ["March 14, 2019", "15 März 2019"],
        ["2019-03-14 08:30", "2019-03-14T08:30:00Z"],
        pd.to_datetime(["2019-03-14", "2019-03-15"]),
        pd.array(["2019-03-14", "2019-03-15"], dtype="timestamp[us][pyarrow]"),
        [date(2019, 3, 14), date(2019, 3, 15)],
    ],
)
def test_dates_in_words_or_as_dates_are_named(cells: Any) -> None:
    fault = the_fault(cells, unit="days")
    assert "2 cells are not numbers (rows 1, 2)" in fault
    assert "2 cells seem to be dates: compute the time between two dates" in fault


def test_dates_since_2000_as_a_spreadsheet_counts_them_are_refused() -> None:
    for unit in ("days", "weeks", "years"):
        fault = the_fault(serials(date(2001, 3, 1), date(2023, 5, 1)), unit=unit)
        assert "40 times seem to be dates, written as a spreadsheet counts them" in fault
        assert f"compute the {unit} between two dates" in fault
    # 43,000 days are no lifetime: what tells is that most patients would have had a century.
    assert "40 times seem to be dates" in the_fault(
        [*serials(date(2005, 1, 1), date(2018, 1, 1)), 120, 700, 5000], unit="days"
    )


@pytest.mark.parametrize(
    ("number", "is_date"), [(19_999, False), (20_000, True), (60_000, True), (60_001, False)]
)
def test_a_spreadsheet_counts_dates_of_patients_from_1954_to_2064(
    number: int, is_date: bool
) -> None:
    assert str(SPREADSHEET_ZERO + timedelta(days=20_000)) == "1954-10-03"
    fault = the_fault([number] * 6, unit="weeks")  # too long for times in any case
    assert ("6 times seem to be dates, written as a spreadsheet counts" in fault) == is_date


@pytest.mark.parametrize("number", [9_999, 60_001])
def test_numbers_that_count_no_likely_day_pass_without_a_word(number: int) -> None:
    assert "nobody has a time below 10,000" in the_doubt([10_000] * 3 + [60_000] * 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert load([20_000] * 4 + [number]).cohort.patients == 5


@pytest.mark.parametrize("unit", [None, "days"])
@pytest.mark.parametrize(
    ("first", "zero"),
    [(date(1985, 1, 1), SPREADSHEET_ZERO), (date(2000, 1, 1), date(1960, 1, 1))],
)
def test_older_dates_may_be_long_lives_and_are_put_in_doubt(
    unit: str | None, first: date, zero: date
) -> None:
    counted = [(day - zero).days for day in days_of(first, first + timedelta(days=5000))]
    doubt = the_doubt(counted, unit=unit)
    assert doubt.startswith("A: Column 't': nobody has a time below 10,000, in days 27 years.")
    assert "compute the days between two dates" in doubt


def test_a_few_spreadsheet_dates_among_times_are_put_in_doubt() -> None:
    doubt = the_doubt([43_100, 120, 700, 5000, 3, 90], unit="days")
    assert "some times are more than 100 years" in doubt


def test_a_study_that_says_how_long_times_can_be_is_believed() -> None:
    ages = np.linspace(20_000, 36_000, 40)
    assert load(ages, unit="days", longest=45_000.0).cohort.patients == 40
    dates = serials(date(2001, 3, 1), date(2023, 5, 1))
    assert load(dates, unit="days", longest=50_000.0).cohort.patients == 40
    with pytest.raises(CohortError) as raised:
        load(dates, unit="days", longest=5_000.0)
    assert len(raised.value.faults) == 2
    assert "40 values lie outside the study's range" in raised.value.faults[0]
    assert "40 times seem to be dates" in raised.value.faults[1]


@settings(max_examples=60)
@given(
    st.lists(st.integers(1, 9_999), min_size=1, max_size=60),
    st.sampled_from([None, "days", "hours", "cycles"]),
)
def test_whole_numbers_that_are_times_pass_without_a_word(
    times: list[int], unit: str | None
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert load(times, unit=unit).cohort.patients == len(times)


def test_fewer_than_five_patients_are_not_spoken_of() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert load([12_000, 13_000, 14_000, 15_000], unit="days").cohort.patients == 4


# Thousands


@pytest.mark.parametrize("mark", [",", " ", "'", "’", "\u00a0", "\u202f"])
@pytest.mark.parametrize("column", ["t", "x"])
def test_thousands_set_apart_are_refused_with_advice_that_is_right(
    mark: str, column: str
) -> None:
    frame = table(["12", "845", "7", "300"]).astype({"x": str})
    frame.loc[3, column] = f"1{mark}022"
    with pytest.raises(CohortError) as raised:
        cohort_from_frame(frame, SCHEMA, source="A")
    (fault,) = raised.value.faults
    assert f"Column '{column}': 1 cell is not a number (row 4)" in fault
    assert "1 cell seems to set thousands apart, as in 1,000 or 1 000: write 1000" in fault
    assert "seems to use a decimal comma" not in fault


@pytest.mark.parametrize("cell", ["1,022.5", "1.022,5", "1.022.000", "12'500'000"])
def test_other_numbers_with_thousands_are_known(cell: str) -> None:
    assert "1 cell seems to set thousands apart" in the_fault(["12", "845", cell])


def test_where_commas_are_decimal_all_of_them_are() -> None:
    fault = the_fault(["12", "1,022", "0,5", "10,25"])
    assert "3 cells seem to use a decimal comma: write a decimal point" in fault
    assert "thousands" not in fault


@pytest.mark.parametrize(
    "times",
    [
        ["12", "845", "1.022"],
        ["12", "845", "1.350", "300"],
        ["12.0", "845.0", "1.022"],
        [12.0, 845.0, 1.022, 2.31],
        ["30", "", "845", "1.022", "2.310", "3.500", "999"],
    ],
)
def test_a_dot_between_thousands_is_recognised(times: list[Any]) -> None:
    with pytest.raises(CohortError) as raised:
        load(times, unit="days")
    fault = raised.value.faults[-1]
    assert "a dot before three digits, beside whole numbers below 1000" in fault
    assert "write 1000, not 1.000" in fault
    assert load([t for t in times if t], longest=999.0).cohort.patients


@pytest.mark.parametrize(
    "times",
    [
        ["5", "3.250", "1.125", "7.500"],  # years: whole numbers are among the others
        ["0.033", "12", "845"],  # less than one
        ["12", "845", "30.417"],  # 30,417 would be far from the rest
        ["12", "845", "1.5"],
        ["12", "845", "1.0225"],
        ["12", "1845", "1.022"],  # here a thousand has no dot
        ["12", "845", "1.022", "2.310", "1.0225"],  # four decimals
        ["12", "845", "1.022", "2.3", "1.5"],  # more of one than of three
        ["1.022", "2.310", "4.001"],
    ],
)
def test_decimals_are_no_thousands(times: list[str]) -> None:
    np.testing.assert_array_equal(load(times).cohort.time, [float(t) for t in times])
