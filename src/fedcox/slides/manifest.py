"""The tables that users write: slides.csv, which slides there are, and patients.csv, outcomes.

Comma, semicolon or tab; every value as text.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from io import StringIO
from pathlib import Path

import numpy as np

from fedcox.errors import CohortError
from fedcox.survival.cohort import BoolArray, FloatArray

COLUMNS = ("slide_id", "patient_id", "center", "path")
_NOT_IN_NAMES = frozenset('/\\:*?"<>|')
_YES = frozenset({"1", "1.0", "true", "yes"})
_NO = frozenset({"0", "0.0", "false", "no"})


def read_rows(path: str | Path, columns: Sequence[str]) -> list[dict[str, str]]:
    """The rows of a CSV file with at least these columns; CohortError where there are none.

    Spaces around names and values do not count, nor do rows without any value.
    """
    (_, header), *lines = _cells(Path(path))
    rows = [row for _, row in lines]
    missing = [name for name in columns if name not in header]
    faults = []
    if missing:
        faults.append(
            f"There is no column {_listed(missing)}; found {_listed(header)}. "
            "Add it, or name the one that is meant."
        )
    twice = sorted({name for name in columns if header.count(name) > 1})
    if twice:
        faults.append(f"Column {_listed(twice)} is there more than once; keep one.")
    ragged = [str(line) for line, row in lines if len(row) != len(header)]
    if ragged:
        faults.append(
            f"{len(ragged)} row(s) do not have {len(header)} values, as the header has: "
            f"{some(ragged, 'line')}."
        )
    if faults:
        raise CohortError(f"Cannot use the table {path}.", faults)
    return [dict(zip(header, row, strict=True)) for row in rows]


def some(names: Sequence[str], what: str = "") -> str:
    """The first few of many names, and how many more there are."""
    shown = ", ".join(f"{what} {name}".strip() for name in names[:8])
    return shown if len(names) <= 8 else f"{shown} and {len(names) - 8} more"


def _cells(path: Path) -> list[tuple[int, list[str]]]:
    """The rows with a value, each with the number of its (last) line in the file."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise CohortError(f"Cannot read {path}.", ["Save it as UTF-8 text."]) from None
    except OSError as error:
        raise CohortError(f"Cannot read {path}: {error.strerror or error}.") from None
    first = next((line for line in text.splitlines() if line.strip()), "")
    # Lines end where the reader says: a quoted value may hold an end of line.
    reader = csv.reader(StringIO(text, newline=""), delimiter=max(",;\t", key=first.count))
    try:
        cells = [(reader.line_num, [cell.strip() for cell in row]) for row in reader]
    except csv.Error as error:
        raise CohortError(f"Cannot read {path} as a table: {error}.") from None
    filled = [(line, row) for line, row in cells if any(row)]
    if len(filled) < 2:
        raise CohortError(f"The table {path} has no row.", ["Give a header and rows below it."])
    return filled


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)


@dataclass(frozen=True)
class ManifestRow:
    """One slide: its file is needed until its features exist, and may be left out after."""

    slide_id: str
    patient_id: str
    center: str
    path: Path | None = None


@dataclass(frozen=True)
class SlideManifest:
    """Slides in the file's order. All slides of a patient are of one center."""

    slides: tuple[ManifestRow, ...]

    @classmethod
    def read(cls, path: str | Path) -> SlideManifest:
        """From a CSV file with the columns slide_id, patient_id, center and path.

        Paths are relative to the file's folder. A slide whose file is missing is told by the
        step that needs it, so that the others go on.
        """
        folder = Path(path).parent
        rows = [
            ManifestRow(
                row["slide_id"],
                row["patient_id"],
                row["center"],
                folder / row["path"] if row["path"] else None,
            )
            for row in read_rows(path, COLUMNS)
        ]
        faults = _faults(rows)
        if faults:
            raise CohortError(f"Cannot use the slides named in {path}.", faults)
        return cls(tuple(rows))

    @property
    def centers(self) -> tuple[str, ...]:
        """Names of the centers, sorted."""
        return tuple(sorted({row.center for row in self.slides}))

    @cached_property
    def patients(self) -> Mapping[str, tuple[ManifestRow, ...]]:
        """The slides of every patient, patients in the order of their first slide."""
        by_patient: dict[str, list[ManifestRow]] = {}
        for row in self.slides:
            by_patient.setdefault(row.patient_id, []).append(row)
        return {patient: tuple(rows) for patient, rows in by_patient.items()}

    def of_patients(self, chosen: frozenset[str]) -> SlideManifest:
        """The slides of some patients."""
        return SlideManifest(tuple(row for row in self.slides if row.patient_id in chosen))


def _faults(rows: Sequence[ManifestRow]) -> list[str]:
    faults = []
    for name in ("slide_id", "patient_id", "center"):
        empty = sum(not getattr(row, name) for row in rows)
        if empty:
            faults.append(f"{empty} row(s) have no {name}.")
    counts = Counter(row.slide_id for row in rows if row.slide_id)
    twice = [slide for slide, times in counts.items() if times > 1]
    if twice:
        faults.append(
            f"{len(twice)} slide_id(s) are there more than once: {some(twice)}. Each names one "
            "slide."
        )
    faults += _name_faults(list(counts))
    centers: dict[str, set[str]] = {}
    for row in rows:
        centers.setdefault(row.patient_id, set()).add(row.center)
    split = sum(len(names) > 1 for patient, names in centers.items() if patient)
    if split:
        faults.append(f"{split} patient(s) have slides in more than one center.")
    return faults


def _name_faults(slides: Sequence[str]) -> list[str]:
    """Files of results are called by the slide; they must stay in their folder, and apart."""
    faults = []
    unfit = [slide for slide in slides if not _names_a_file(slide)]
    if unfit:
        shown = [
            "".join(sign if sign.isprintable() else "?" for sign in name) for name in unfit
        ]
        faults.append(
            f"{len(unfit)} slide_id(s) cannot be names of files: {some(shown)}. They must not "
            "begin or end with a dot nor hold slashes or other signs that file systems keep."
        )
    folded = Counter(slide.casefold() for slide in slides)
    alike = [slide for slide in slides if folded[slide.casefold()] > 1]
    if alike:
        faults.append(
            f"{len(alike)} slide_id(s) differ in small and capital letters only: "
            f"{some(alike)}. On some disks their files would be the same."
        )
    return faults


def _names_a_file(name: str) -> bool:
    return (
        not name.startswith(".")
        and not name.endswith(".")
        and len(name.encode()) <= 200
        and name.isprintable()
        and not _NOT_IN_NAMES & set(name)
    )


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


def read_patient_names(path: str | Path) -> frozenset[str]:
    """The patients that a CSV file lists, such as those of the training folds."""
    names = [row["patient_id"] for row in read_rows(path, ("patient_id",))]
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
