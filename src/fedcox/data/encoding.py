"""From a table of patients to a cohort, or to the list of everything that is wrong with it.

The columns of the design matrix follow the study's order, not the table's. Identifiers are
checked for duplicates and left behind.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pandas as pd

from fedcox.data.columns import MISSING, UNKNOWN, distinct_values, read_levels
from fedcox.data.faults import TableFaults
from fedcox.data.outcome import read_event, read_time
from fedcox.data.schema import CategoryColumn, CohortSchema, NumberColumn
from fedcox.data.wording import canonical, counted, is_missing, is_number, listed, quoted
from fedcox.errors import CohortError, MissingCenterWarning
from fedcox.survival.cohort import BoolArray, Cohort, FloatArray, IntArray

ZERO_TIME = "zero follow-up time"
MISSING_VALUES = "missing values"
NO_CENTER = "no center"


@dataclass(frozen=True)
class LoadedCohort:
    """A cohort, and what the study's rules did to it.

    `dropped` counts the patients they left out, by reason, `filled` the cells without a value
    that the mean of all centers will stand for, by column.
    """

    cohort: Cohort
    dropped: Mapping[str, int]
    filled: Mapping[str, int] = field(default_factory=dict)


def cohort_from_frame(
    frame: pd.DataFrame, schema: CohortSchema, *, source: str
) -> LoadedCohort:
    """Check a table and encode it; every fault is raised at once, under the source's name."""
    return _read_patients(frame, schema, source).part(None)


def cohorts_by_center(
    frame: pd.DataFrame, schema: CohortSchema, *, center: str, source: str
) -> dict[str, LoadedCohort]:
    """Check one table that holds several centers, named in a column, and part it.

    Patients are numbered through the whole table, so the split does not show in batches drawn
    over all of them. A center may end up empty when the study's rules leave out its patients.
    With `missing = "drop"`, patients who name no center are left out under a warning.
    """
    patients = _read_patients(frame, schema, source, center=center)
    homeless = int(patients.no_center.sum())
    if homeless:
        warnings.warn(
            f"{homeless:,} patient(s) name no center and were left out, as "
            'missing = "drop" says.',
            MissingCenterWarning,
            stacklevel=3,
        )
    distinct = distinct_values(TableFaults(frame, source).column(center))
    # A file says 3.0 where a table says 3: one center, one name.
    spelt = [canonical(text) if is_number(text) else text for text in distinct.texts]
    names = sorted({text for text in spelt if not is_missing(text)}, key=_natural)
    ranks = {name: rank for rank, name in enumerate(names)}
    nowhere = len(names)  # after all centers, and cut off
    by_code = np.array([*(ranks.get(text, nowhere) for text in spelt), nowhere], dtype=np.int64)
    center_of = by_code[distinct.codes]  # no value is the last code
    order = np.argsort(center_of, kind="stable")
    ends = np.cumsum(np.bincount(center_of, minlength=len(names) + 1))
    parts = np.split(order, ends[:-1])[: len(names)]
    return {name: patients.part(rows) for name, rows in zip(names, parts, strict=True)}


def encode_covariates(frame: pd.DataFrame, schema: CohortSchema, *, source: str) -> FloatArray:
    """The design matrix (patients, columns) of new patients, who need no outcome.

    A missing value is a fault unless the study fills it: nobody is left out of a prediction.
    """
    faults = TableFaults(frame, source)
    faults.require_columns([column.name for column in schema.covariates])
    covariates = _covariates(frame, schema, faults, refuse_missing=schema.missing != "mean")
    faults.stop()
    return covariates


@dataclass(frozen=True, eq=False)
class _Patients:
    """Every row of a table, encoded, with the reasons to leave it out."""

    schema: CohortSchema
    covariates: FloatArray
    time: FloatArray
    event: BoolArray
    zero_time: BoolArray  # to be dropped for it
    incomplete: BoolArray  # to be dropped for it, and not already for the time
    no_center: BoolArray  # to be dropped for it, whatever else

    @cached_property
    def kept(self) -> BoolArray:
        return ~(self.zero_time | self.incomplete | self.no_center)

    @cached_property
    def number(self) -> IntArray:
        """The place of each patient among those kept."""
        return np.cumsum(self.kept) - 1

    def part(self, rows: IntArray | None) -> LoadedCohort:
        """The patients of these rows, or of all."""
        everyone = slice(None) if rows is None else rows
        if rows is None and self.kept.all():
            chosen: slice | IntArray = everyone  # the large matrix need not be copied
        else:
            chosen = np.flatnonzero(self.kept) if rows is None else rows[self.kept[rows]]
        cohort = Cohort(
            self.covariates[chosen], self.time[chosen], self.event[chosen], self.number[chosen]
        )
        reasons = {
            ZERO_TIME: self.zero_time,
            MISSING_VALUES: self.incomplete,
            NO_CENTER: self.no_center,
        }
        counts = {reason: int(mask[everyone].sum()) for reason, mask in reasons.items()}
        return LoadedCohort(
            cohort, {reason: n for reason, n in counts.items() if n}, self._filled(cohort)
        )

    def _filled(self, cohort: Cohort) -> dict[str, int]:
        """Gaps that are left: other rules than `missing = "mean"` leave none."""
        if cohort.complete:
            return {}
        gaps = np.isnan(cohort.covariates).sum(axis=0)
        columns = self.schema.first_encoded.items()
        return {name: int(gaps[place]) for name, place in columns if gaps[place]}


def _read_patients(
    frame: pd.DataFrame, schema: CohortSchema, source: str, *, center: str | None = None
) -> _Patients:
    faults = TableFaults(frame, source)
    faults.require_columns([*schema.column_names, *([] if center is None else [center])])
    if len(frame) == 0:
        faults.add("There are no patients: the table is empty.")
    no_center = np.zeros(len(frame), dtype=np.bool_)
    if center is not None and faults.has(center):
        no_center = _without_center(faults, schema, center)
    if schema.patient_id is not None and faults.has(schema.patient_id):
        _check_identifier(faults, schema.patient_id)
    time = read_time(faults, schema)
    event = read_event(faults, schema)
    covariates = _covariates(frame, schema, faults, refuse_missing=schema.missing == "refuse")
    faults.stop()
    nobody = np.zeros(len(frame), dtype=np.bool_)
    zero_time = time == 0 if schema.zero_times == "drop" else nobody
    zero_time = zero_time & ~no_center
    incomplete = np.isnan(covariates).any(axis=1) if schema.missing == "drop" else nobody
    incomplete = incomplete & ~zero_time & ~no_center
    patients = _Patients(schema, covariates, time, event, zero_time, incomplete, no_center)
    if not patients.kept.any():
        dropped = patients.part(None).dropped
        why = listed(f"{count:,} for {reason}" for reason, count in dropped.items())
        raise CohortError(faults.subject, [f"No patients are left after dropping {why}."])
    return patients


def _check_identifier(faults: TableFaults, name: str) -> None:
    distinct = distinct_values(faults.column(name))
    missing = distinct.rows_where(is_missing, gaps=True)
    times_seen = np.bincount(distinct.codes[~missing], minlength=len(distinct.texts) + 1)
    repeated = (times_seen[distinct.codes] > 1) & ~missing
    faults.add_rows(name, missing, "patient without an id", "patients without an id")
    ids = counted(int((times_seen > 1).sum()), "patient id occurs", "patient ids occur")
    faults.add_rows(
        name,
        repeated,
        "row",
        f"rows share their patient id with another row: {ids} more than once",
        advice="one row per patient is needed",
    )


def _without_center(faults: TableFaults, schema: CohortSchema, name: str) -> BoolArray:
    """Patients who name no center: left out with `missing = "drop"`, else a fault."""
    nameless = distinct_values(faults.column(name)).rows_where(is_missing, gaps=True)
    if schema.missing != "drop":
        faults.add_patients(
            name,
            nameless,
            "no center",
            advice='fill the column for every patient, or set missing = "drop" in the '
            "study's [model] to leave such patients out",
        )
    return nameless


def _covariates(
    frame: pd.DataFrame, schema: CohortSchema, faults: TableFaults, *, refuse_missing: bool
) -> FloatArray:
    encoded = np.empty((len(frame), len(schema.encoded_names)))
    last = 0
    for column in schema.covariates:
        first, last = last, last + len(column.encoded_names)
        if not faults.has(column.name):
            continue
        if isinstance(column, NumberColumn):
            missing = _fill_number(encoded[:, first], column, faults)
        else:
            missing = _fill_category(encoded[:, first:last], column, faults)
        if refuse_missing:
            faults.add_patients(
                column.name, missing, "no value", advice=_missing_options(schema)
            )
    return encoded


def _missing_options(schema: CohortSchema) -> str:
    if schema.missing == "drop":
        return "the study leaves such patients out, so there is no prediction for them"
    return (
        'fill the cells, or set missing = "drop" or missing = "mean" in the study\'s [model] '
        "to leave such patients out or to put the mean of all centers"
    )


def _fill_number(target: FloatArray, column: NumberColumn, faults: TableFaults) -> BoolArray:
    numbers = faults.numbers(column.name)
    target[:] = numbers.values
    faults.add_outside(column.name, numbers.values, column.minimum, column.maximum)
    return numbers.missing


def _fill_category(
    target: FloatArray, column: CategoryColumn, faults: TableFaults
) -> BoolArray:
    codes = read_levels(faults.column(column.name), column.levels)
    for position, level in enumerate(column.compared_levels):
        target[:, position] = codes == column.levels.index(level)
    missing: BoolArray = codes == MISSING
    target[missing] = np.nan
    unknown: BoolArray = codes == UNKNOWN
    if unknown.any():
        faults.add_patients(
            column.name,
            unknown,
            "a level the study does not know",
            advice=f"the study's levels are {quoted(column.levels)}"
            + _case_hint(faults.column(column.name)[unknown], column),
        )
    return missing


def _case_hint(unknown: pd.Series, column: CategoryColumn) -> str:
    """How many unknown levels would be known if "Male" were "male"."""
    folded = read_levels(unknown.astype(str).str.lower(), [lv.lower() for lv in column.levels])
    count = int((folded >= 0).sum())
    return f" ({count:,} of them in other upper and lower case)" if count else ""


def _natural(text: str) -> tuple[int, float, str]:
    """Centers 2 before 10, and numbers before names."""
    try:
        return 0, float(text), text
    except ValueError:
        return 1, 0.0, text
