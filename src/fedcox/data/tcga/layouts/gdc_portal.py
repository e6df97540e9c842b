"""The file clinical.tsv of the GDC portal, in the three shapes it had so far.

2019: one row per patient, age in days only, treatments without their kind.
2020 to 2023: one row per patient and treatment.
Since 2024: dotted names, one row per patient, diagnosis and treatment.

Several rows become one patient: demographic fields are the same in all of them; the diagnosis
is the one marked as primary disease, or else the first; the treatment is told by all drug
treatments of that diagnosis.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from fedcox.data.tcga.clinical import (
    AGE,
    DEMOGRAPHIC,
    FIELDS,
    Clinical,
    Layout,
    barcodes,
    one_row_per_patient,
    selected,
)
from fedcox.data.tcga.treatment import pharmaceutical

_DAYS_IN_A_YEAR = 365.25
_TREATMENT = "treatment_or_therapy"
_KIND = "treatment_type"
_PRIMARY = "diagnosis_is_primary_disease"


def _read_2019(frame: pd.DataFrame) -> Clinical:
    rows = one_row_per_patient(frame, "submitter_id")
    fields = selected(rows, {field: field for field in FIELDS if field != _TREATMENT})
    days = pd.to_numeric(rows["age_at_diagnosis"], errors="coerce")
    fields.insert(0, AGE, np.floor(days / _DAYS_IN_A_YEAR))
    note = (
        "Ages are whole years of age_at_diagnosis, which this table has in days; its "
        "treatment_or_therapy is not used, since it does not say what the treatment was."
    )
    return Clinical(_LAYOUT_2019.name, fields, (note,))


def _read_2020(frame: pd.DataFrame) -> Clinical:
    return _collapsed(_LAYOUT_2020.name, frame, "case_submitter_id")


def _read_2024(frame: pd.DataFrame) -> Clinical:
    sources = {"patient": "cases.submitter_id", _PRIMARY: f"diagnoses.{_PRIMARY}"}
    for field in FIELDS:
        sources[field] = f"{'demographic' if field in DEMOGRAPHIC else 'diagnoses'}.{field}"
    for field in (_KIND, _TREATMENT):
        sources[field] = f"treatments.{field}"
    return _collapsed(_LAYOUT_2024.name, selected(frame, sources), "patient")


def _collapsed(name: str, frame: pd.DataFrame, patient: str) -> Clinical:
    rows = _of_the_primary_diagnosis(frame[frame[patient].notna()], patient)
    first = one_row_per_patient(rows, patient)
    fields = selected(first, {field: field for field in FIELDS if field != _TREATMENT})
    if not {_KIND, _TREATMENT} <= set(rows):
        return Clinical(name, fields)
    records = pd.DataFrame(
        {"kind": rows[_KIND].to_numpy(), "given": rows[_TREATMENT].to_numpy()},
        index=pd.Index(barcodes(rows[patient]), name="pid"),
    )
    fields[_TREATMENT] = pharmaceutical(fields.index, records)
    return Clinical(name, fields)


def _of_the_primary_diagnosis(frame: pd.DataFrame, patient: str) -> pd.DataFrame:
    """Rows marked primary; every row of a patient who has no such mark."""
    if _PRIMARY not in frame:
        return frame
    primary = frame[_PRIMARY].str.lower().eq("true")
    marked = primary.groupby(frame[patient]).transform("any")
    return frame[primary | ~marked]


_LAYOUT_2024 = Layout(
    "GDC portal since 2024", ("cases.submitter_id", f"demographic.{AGE}"), _read_2024
)
_LAYOUT_2020 = Layout("GDC portal 2020 to 2023", ("case_submitter_id", AGE), _read_2020)
_LAYOUT_2019 = Layout(
    "GDC portal 2019", ("submitter_id", "project_id", "age_at_diagnosis"), _read_2019
)
LAYOUTS = (_LAYOUT_2024, _LAYOUT_2020, _LAYOUT_2019)
