"""How long was each patient followed, and with which end? The file patients.csv."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedcox.errors import CohortError
from fedcox.slides.csv_rows import read_rows
from fedcox.survival.cohort import BoolArray, FloatArray

_YES = frozenset({"1", "1.0", "true", "yes"})
_NO = frozenset({"0", "0.0", "false", "no"})


@dataclass(frozen=True)
class OutcomeColumns:
    """How the columns are called.

    `event_value` is what stands in the event's column for a patient with the event; without
    it the column holds 1 and 0, true and false, or yes and no.
    """

    patient: str = "patient_id"
    time: str = "time"
    event: str = "event"
    event_value: str | None = None


@dataclass(frozen=True, eq=False)
class PatientTable:
    """Follow-up time and event of every patient, by the patient's name."""

    patients: tuple[str, ...]
    time: FloatArray
    event: BoolArray

    @classmethod
    def read(cls, path: str | Path, columns: OutcomeColumns | None = None) -> PatientTable:
        """From a CSV file with one row for each patient."""
        names = columns or OutcomeColumns()
        rows = read_rows(path, (names.patient, names.time, names.event))
        patients = tuple(row[names.patient] for row in rows)
        time = np.array([_number(row[names.time]) for row in rows])
        event, event_faults = _events([row[names.event] for row in rows], names)
        faults = [*_patient_faults(patients), *_time_faults(time), *event_faults]
        if faults:
            raise CohortError(f"Cannot use the patients in {path}.", faults)
        return cls(patients, time, event)


def read_patient_names(path: str | Path, column: str = "patient_id") -> frozenset[str]:
    """The patients that a CSV file lists, such as those of the training folds."""
    names = [row[column] for row in read_rows(path, (column,))]
    faults = _patient_faults(names)
    if faults:
        raise CohortError(f"Cannot use the patients in {path}.", faults)
    return frozenset(names)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")


def _patient_faults(patients: Sequence[str]) -> list[str]:
    faults = []
    empty = sum(not name for name in patients)
    if empty:
        faults.append(f"{empty} row(s) name no patient.")
    twice = sum(times > 1 for name, times in Counter(patients).items() if name)
    if twice:
        faults.append(f"{twice} patient(s) are there more than once; give each one row.")
    return faults


def _time_faults(time: FloatArray) -> list[str]:
    faults = []
    unknown = int(np.count_nonzero(~np.isfinite(time)))
    if unknown:
        faults.append(f"{unknown} patient(s) have no time that is a number; leave them out.")
    negative = int(np.count_nonzero(time < 0))
    if negative:
        faults.append(f"{negative} patient(s) have a time below zero.")
    return faults


def _events(cells: Sequence[str], names: OutcomeColumns) -> tuple[BoolArray, list[str]]:
    if names.event_value is not None:
        event = np.array([cell == names.event_value for cell in cells])
        empty = sum(not cell for cell in cells)
        faults = [f"{empty} patient(s) have no value of '{names.event}'."] if empty else []
        if not event.any():
            faults.append(
                f"No patient has the value '{names.event_value}' in column '{names.event}'."
            )
        return event, faults
    lower = [cell.lower() for cell in cells]
    unknown = sum(cell not in _YES | _NO for cell in lower)
    faults = []
    if unknown:
        faults.append(
            f"{unknown} patient(s) have neither 1 nor 0 in column '{names.event}'. Name the "
            "value that stands for the event."
        )
    return np.array([cell in _YES for cell in lower]), faults
