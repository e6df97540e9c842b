"""Follow-up time and event of each patient, as a hospital's table has them."""

from __future__ import annotations

import numpy as np

from fedcox.data.columns import distinct_values
from fedcox.data.faults import TableFaults
from fedcox.data.plausible_times import check_times
from fedcox.data.schema import CohortSchema
from fedcox.data.spelling import Value, canonical, is_missing
from fedcox.survival.cohort import BoolArray, FloatArray


def read_time(faults: TableFaults, schema: CohortSchema) -> FloatArray:
    """Follow-up time in the study's unit; a time of zero stays zero."""
    if not faults.has(schema.time):
        return np.empty(0)
    numbers = faults.numbers(schema.time)
    time = numbers.values
    faults.add_rows(
        schema.time,
        numbers.missing,
        "patient has no follow-up time",
        "patients have no follow-up time",
    )
    faults.add_rows(
        schema.time,
        time < 0,
        "patient has a negative follow-up time",
        "patients have a negative follow-up time",
    )
    if schema.zero_times == "refuse":
        faults.add_rows(
            schema.time,
            time == 0,
            "patient has a follow-up time of zero",
            "patients have a follow-up time of zero",
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
    faults.add_rows(
        schema.event,
        missing,
        "patient has no value",
        "patients have no value",
        advice="event or censored must be known for everyone",
    )
    need = _event_coding(schema, len(others))
    faults.add_rows(
        schema.event,
        strange,
        f"patient has {need}",
        f"patients have {need}",
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
