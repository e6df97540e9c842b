"""The phenotype table of UCSC Xena's GDC hub: one row per sample, names with a suffix.

All samples of a patient carry the same clinical fields. Older tables have stages and drug
treatment under the names of the enrolment forms, newer ones under GDC's, with all treatments
of a patient in one cell: `['yes', 'no']`.
"""

from __future__ import annotations

import re

import pandas as pd

from fedcox.data.tcga.clinical import (
    DEMOGRAPHIC,
    FIELDS,
    NOT_REPORTED,
    Clinical,
    Layout,
    one_row_per_patient,
    selected,
)
from fedcox.data.tcga.treatment import pharmaceutical

_TREATMENT = "treatment_or_therapy"
_FORMS = {
    "ajcc_pathologic_m": "pathologic_M",
    "ajcc_pathologic_n": "pathologic_N",
    "ajcc_pathologic_t": "pathologic_T",
    "ajcc_staging_system_edition": "system_version",
    _TREATMENT: "postoperative_rx_tx",
}
_LISTS = {
    "kind": "treatment_type.treatments.diagnoses",
    "given": f"{_TREATMENT}.treatments.diagnoses",
}
_ITEM = re.compile(r"'([^']*)'|\"([^\"]*)\"")


def _read(frame: pd.DataFrame) -> Clinical:
    rows = one_row_per_patient(frame, "submitter_id")
    sources = {}
    for field in FIELDS:
        name = f"{field}.{'demographic' if field in DEMOGRAPHIC else 'diagnoses'}"
        sources[field] = name if name in rows else _FORMS.get(field, name)
    fields = selected(rows, sources)
    if set(_LISTS.values()) <= set(rows):
        fields[_TREATMENT] = pharmaceutical(rows.index, _records(rows))
    elif _TREATMENT in fields:
        fields[_TREATMENT] = fields[_TREATMENT].str.lower().fillna(NOT_REPORTED)
    return Clinical(LAYOUT.name, fields)


def _records(rows: pd.DataFrame) -> pd.DataFrame:
    """One row per treatment, from two columns of lists in the same order."""
    lists = pd.DataFrame({name: rows[column].map(_items) for name, column in _LISTS.items()})
    even = lists["kind"].str.len() == lists["given"].str.len()
    return lists[even].explode(["kind", "given"])


def _items(cell: object) -> list[str]:
    if not isinstance(cell, str):
        return []
    if not cell.startswith("["):
        return [cell]
    return [single or double for single, double in _ITEM.findall(cell)]


LAYOUT = Layout(
    "UCSC Xena", ("submitter_id", "age_at_index.demographic", "gender.demographic"), _read
)
