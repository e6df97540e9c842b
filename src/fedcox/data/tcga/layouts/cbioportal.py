"""The file data_clinical_patient.txt of a TCGA study in cBioPortal.

Values are spelt in capitals there and are put back into GDC's spelling. The table has an
overall survival of its own, in months of 30.417 days.
"""

from __future__ import annotations

import re

import pandas as pd

from fedcox.data.tcga.clinical import (
    AGE,
    NOT_REPORTED,
    Clinical,
    Layout,
    one_row_per_patient,
    selected,
)

_DAYS_IN_A_MONTH = 30.417
_SOURCES = {
    AGE: "AGE",
    "ethnicity": "ETHNICITY",
    "gender": "SEX",
    "race": "RACE",
    "ajcc_pathologic_m": "PATH_M_STAGE",
    "ajcc_pathologic_n": "PATH_N_STAGE",
    "ajcc_pathologic_stage": "AJCC_PATHOLOGIC_TUMOR_STAGE",
    "ajcc_pathologic_t": "PATH_T_STAGE",
    "ajcc_staging_system_edition": "AJCC_STAGING_EDITION",
    "icd_10_code": "ICD_10",
    "morphology": "ICD_O_3_HISTOLOGY",
    "prior_malignancy": "PRIOR_DX",
    "prior_treatment": "HISTORY_NEOADJUVANT_TRTYN",
}
_LOWER = ("ethnicity", "gender", "race", "ajcc_staging_system_edition", "prior_malignancy")
# GDC's words for what this table leaves empty.
_EMPTY = {
    "ethnicity": NOT_REPORTED,
    "race": NOT_REPORTED,
    "prior_malignancy": NOT_REPORTED,
    "prior_treatment": "Not Reported",
}
_TUMOR_NODE_METASTASIS = re.compile(r"([A-Z]*?)([TNM])(X|(?=[0-9]|IS))(.*)")
_STATUS = {"0:LIVING": 0, "LIVING": 0, "1:DECEASED": 1, "DECEASED": 1}


def _read(frame: pd.DataFrame) -> Clinical:
    rows = one_row_per_patient(frame, "PATIENT_ID")
    fields = selected(rows, _SOURCES)
    for field in (name for name in _LOWER if name in fields):
        fields[field] = fields[field].str.lower()
    for letter in "mnt":
        field = f"ajcc_pathologic_{letter}"
        if field in fields:
            fields[field] = fields[field].map(_tumor_node_metastasis, na_action="ignore")
    if "ajcc_pathologic_stage" in fields:
        stage = fields["ajcc_pathologic_stage"]
        fields["ajcc_pathologic_stage"] = stage.str.replace(r"^STAGE\b", "Stage", regex=True)
    fields = fields.fillna({k: v for k, v in _EMPTY.items() if k in fields})
    return Clinical(LAYOUT.name, fields, outcome=_outcome(rows))


def _tumor_node_metastasis(text: str) -> str:
    """`T1C` → `T1c`, `N0 (I-)` → `N0 (i-)`, `CM0 (I+)` → `cM0 (i+)`, `TIS` → `Tis`, `NX`."""
    parts = _TUMOR_NODE_METASTASIS.fullmatch(text)
    if parts is None:
        return text
    return f"{parts[1].lower()}{parts[2]}{parts[3]}{parts[4].lower()}"


def _outcome(rows: pd.DataFrame) -> pd.DataFrame | None:
    if not {"CANCER_TYPE_ACRONYM", "OS_STATUS", "OS_MONTHS"} <= set(rows):
        return None
    months = pd.to_numeric(rows["OS_MONTHS"], errors="coerce")
    return pd.DataFrame(
        {
            "type": rows["CANCER_TYPE_ACRONYM"],
            "E": rows["OS_STATUS"].map(_STATUS).astype("float64"),
            "T": (months * _DAYS_IN_A_MONTH).round(),
        }
    )


LAYOUT = Layout("cBioPortal", ("PATIENT_ID", "AGE", "SEX"), _read)
