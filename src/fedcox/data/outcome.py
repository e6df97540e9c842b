"""Follow-up time and event of each patient, and whether the numbers can be follow-up times."""

from __future__ import annotations

import numpy as np

from fedcox.data.columns import Column, distinct_values
from fedcox.data.faults import TableFaults
from fedcox.data.schema import CohortSchema
from fedcox.data.wording import SMALL_CELL, Value, canonical, is_missing, is_number
from fedcox.survival.cohort import BoolArray, FloatArray

#: Nobody has lived longer.
LIFETIME = 123.0
#: Few have, and no half of any center's patients.
_CENTURY = 100.0
_IN_A_YEAR = {"hour": 8766.0, "day": 365.25, "week": 365.25 / 7, "month": 12.0, "year": 1.0}
#: Days since 1900, as spreadsheets count them, from 1954 to 2064.
_SERIALS = 20_000.0, 60_000.0
#: The same or days since 1960 or 1970, as SAS and R count them, from 1987 or 1997 on.
_DAY_NUMBERS = 10_000.0, 60_000.0
_YEARS_OF_DATES = 1800, 2100
_OVERRIDE = "where these are times, give a max that allows them in the study's [outcome]"


def read_time(faults: TableFaults, schema: CohortSchema) -> FloatArray:
    """Follow-up time in the study's unit; a time of zero stays zero."""
    if not faults.has(schema.time):
        return np.empty(0)
    numbers = faults.numbers(schema.time)
    time = numbers.values
    faults.add_patients(schema.time, numbers.missing, "no follow-up time")
    faults.add_patients(schema.time, time < 0, "a negative follow-up time")
    if schema.zero_times == "refuse":
        faults.add_patients(
            schema.time,
            time == 0,
            "a follow-up time of zero",
            advice=(
                'set zero_times = "drop" or zero_times = "first_interval" in the study\'s '
                "[outcome] to leave them out or to count them in the first interval"
            ),
        )
    # Zero has a rule of its own.
    after_zero = np.where(time > 0, time, np.nan)
    faults.add_outside(schema.time, after_zero, schema.shortest, schema.longest)
    check_times(faults, schema, time)
    return time


def read_event(faults: TableFaults, schema: CohortSchema) -> BoolArray:
    """Who had the event; a value that is neither the event nor the other one is a fault."""
    if not faults.has(schema.event):
        return np.empty(0, dtype=np.bool_)
    distinct = distinct_values(faults.column(schema.event))
    event_value = canonical(schema.event_value)
    known = {event_value}
    if schema.censored_value is not None:
        known.add(canonical(schema.censored_value))

    def is_gap(text: str) -> bool:
        return is_missing(text) and canonical(text) not in known

    others = {canonical(text) for text in distinct.texts if not is_gap(text)} - known
    if schema.censored_value is None and len(others) == 1:
        others = set()
    missing = distinct.rows_where(is_gap, gaps=True)
    strange = distinct.rows_where(lambda text: canonical(text) in others, gaps=False)
    faults.add_patients(
        schema.event, missing, "no value", advice="event or censored must be known for everyone"
    )
    need = _event_coding(schema, len(others))
    faults.add_patients(
        schema.event,
        strange,
        need,
        advice="the study's [outcome] must say how the files code it",
    )
    return distinct.rows_where(lambda text: canonical(text) == event_value, gaps=False)


def _event_coding(schema: CohortSchema, others: int) -> str:
    event = _shown(schema.event_value)
    if schema.censored_value is None:
        return (
            f"one of {others} values beside the study's event_value = {event}, where only one "
            "other value can mean censored"
        )
    return (
        f"a value that is neither the study's event_value = {event} nor its "
        f"censored_value = {_shown(schema.censored_value)}"
    )


def _shown(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else repr(value).replace("'", '"')


def check_times(faults: TableFaults, schema: CohortSchema, time: FloatArray) -> None:
    """Note every time that cannot be one, and doubts about those that hardly can.

    Numbers may be dates, another unit's, or dotted thousands. A date or a wrong unit gives a
    fit as smooth as any, so a column that cannot hold times is refused; where it is only
    likely, the study goes on under a warning. Where a study gives the longest time there can
    be, `max` in its [outcome], times up to there are believed.
    """
    _check_thousands(faults, schema, time)
    beyond = ~(time <= (-np.inf if schema.longest is None else schema.longest))
    written = written_dates(time) & beyond
    serial = spreadsheet_dates(time, schema.unit) & beyond
    if _most(written, time) or _far_from_others(written, time):
        _add_dates(faults, schema, written, "as yyyymmdd")
    elif _most(serial, time):
        _add_dates(faults, schema, serial, "as a spreadsheet counts them, in days")
    elif schema.longest is None:
        _check_lifetime(faults, schema, time)
        _doubt_day_numbers(faults, schema, time, serial)


def in_a_year(unit: str | None) -> float | None:
    """How many of this unit are a year; None for a unit nobody named or nobody knows.

    >>> in_a_year("days"), in_a_year("Year"), in_a_year("cycles")
    (365.25, 1.0, None)
    """
    return _IN_A_YEAR.get((unit or "").strip().lower().removesuffix("s"))


def written_dates(time: FloatArray) -> BoolArray:
    """Numbers that read as a day of the calendar, year, month and day in eight digits."""
    known = np.where(np.isfinite(time), time, 0.0)
    first, last = _YEARS_OF_DATES
    year, rest = np.divmod(known, 10_000.0)
    month, day = np.divmod(rest, 100.0)
    dates: BoolArray = (year >= first) & (year <= last) & (known == np.floor(known))
    dates &= (month >= 1) & (month <= 12) & (day >= 1) & (day <= 31)
    return dates


def spreadsheet_dates(time: FloatArray, unit: str | None) -> BoolArray:
    """Numbers by which a spreadsheet means a date, and which are more than a century as times.

    In days these are dates since 2000. An older date is no longer than a long life.
    """
    year = in_a_year(unit)
    if year is None:
        return np.zeros(time.size, dtype=np.bool_)
    first, last = _SERIALS
    dates: BoolArray = (time >= first) & (time <= last) & (time > _CENTURY * year)
    return dates


def dotted_thousands(time: FloatArray, column: Column) -> BoolArray:
    """Times with a dot that seems to set thousands apart, as 1.022 beside 12 and 845.

    They have three decimals or, where a reader dropped zeros, fewer; they are above one; and
    they are short beside the whole numbers, none of which reaches a thousand, but would go on
    from there. `column` is how the times are written.
    """
    known = np.isfinite(time) & (time > 0)
    whole: BoolArray = known & (time == np.floor(time))
    dotted: BoolArray = known & ~whole
    nobody = np.zeros(time.size, dtype=np.bool_)
    if not whole.any() or not dotted.any():
        return nobody
    low, high = float(time[dotted].min()), float(time[dotted].max())
    largest = float(time[whole].max())
    thousands = low >= 1 and largest < 1000 and high < float(np.median(time[whole]))
    if not thousands or 1000 * low > 10 * largest:
        return nobody
    texts = [text for text in distinct_values(column).texts if is_number(text)]
    decimals = [len(text.partition(".")[2]) for text in texts if float(text) % 1]
    three = sum(number == 3 for number in decimals)
    return dotted if max(decimals, default=0) == 3 and 2 * three >= len(decimals) else nobody


def _most(rows: BoolArray, time: FloatArray) -> bool:
    """Whether these are more than half of all times that are there."""
    return 2 * int(np.count_nonzero(rows)) > int(np.count_nonzero(np.isfinite(time)))


def _far_from_others(rows: BoolArray, time: FloatArray) -> bool:
    """Whether these are there, and every other time is shorter by a factor of ten or more."""
    others = time[np.isfinite(time) & ~rows]
    return bool(rows.any()) and 10 * float(others.max(initial=0.0)) < float(time[rows].min())


def _add_dates(faults: TableFaults, schema: CohortSchema, rows: BoolArray, how: str) -> None:
    faults.add_rows(
        schema.time,
        rows,
        f"time seems to be a date, written {how}",
        f"times seem to be dates, written {how}",
        advice=f"compute the {schema.unit or 'days'} between two dates, from the start of "
        f"follow-up to its end; {_OVERRIDE}",
    )


def _check_lifetime(faults: TableFaults, schema: CohortSchema, time: FloatArray) -> None:
    year = in_a_year(schema.unit)
    if year is None:
        return
    what = f"a follow-up time of more than {LIFETIME:g} years, counted in {schema.unit}"
    faults.add_patients(
        schema.time,
        np.isfinite(time) & (time > LIFETIME * year),
        what,
        advice="check the unit in the study's [outcome], and that the column holds the time "
        f"between two dates, not a date; {_OVERRIDE}",
    )


def _doubt_day_numbers(
    faults: TableFaults, schema: CohortSchema, time: FloatArray, serial: BoolArray
) -> None:
    """Possible, as where age is the time, but rather these are days of a calendar."""
    known = time[np.isfinite(time)]
    first, last = _DAY_NUMBERS
    unit_of_days = schema.unit is None or in_a_year(schema.unit) == _IN_A_YEAR["day"]
    within = known.size >= SMALL_CELL and bool(((known >= first) & (known <= last)).all())
    if unit_of_days and within:
        what = (
            f"nobody has a time below {first:,.0f}, in days {first / 365.25:.0f} years. These "
            "may be dates"
        )
    elif serial.any():
        what = f"some times are more than {_CENTURY:g} years. These may be dates"
    else:
        return
    faults.doubt(
        f"Column '{schema.time}': {what}, counted in days as in a spreadsheet: then compute "
        f"the {schema.unit or 'days'} between two dates. If they are times, give unit and max "
        "in the study's [outcome]."
    )


def _check_thousands(faults: TableFaults, schema: CohortSchema, time: FloatArray) -> None:
    if schema.longest is not None and schema.longest < 1000:
        return  # a thousand would be too long for the study: these are decimals
    what = "a dot before three digits, beside whole numbers below 1000"
    faults.add_rows(
        schema.time,
        dotted_thousands(time, faults.column(schema.time)),
        f"time has {what}",
        f"times have {what}",
        advice="it seems to set thousands apart: write 1000, not 1.000; where these are "
        "decimals, give a max below 1000 in the study's [outcome]",
    )
