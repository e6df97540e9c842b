"""The clinical tables of TCGA as users download them, each to one row per patient.

All get GDC's field names. A layout is recognised by its columns, never by the name of the file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

#: The number among the covariates.
AGE = "age_at_index"
TREATMENT = "treatment_or_therapy"
#: The categories among them, in the order of the paper's columns.
CATEGORIES = (
    "ethnicity",
    "gender",
    "race",
    "ajcc_clinical_m",
    "ajcc_pathologic_m",
    "ajcc_pathologic_n",
    "ajcc_pathologic_stage",
    "ajcc_pathologic_t",
    "ajcc_staging_system_edition",
    "icd_10_code",
    "morphology",
    "primary_diagnosis",
    "prior_malignancy",
    "prior_treatment",
    "site_of_resection_or_biopsy",
    "synchronous_malignancy",
    "tissue_or_organ_of_origin",
    TREATMENT,
    "tumor_stage",
)
DEMOGRAPHIC = (AGE, "ethnicity", "gender", "race")
FIELDS = (AGE, *CATEGORIES)
#: Of a patient or a treatment about which nothing was entered; a level like any other.
NOT_REPORTED = "not reported"

_BARCODE_LENGTH = 12  # TCGA-A7-A13F: project, source site, participant


@dataclass(frozen=True, eq=False)
class Clinical:
    """One row per patient, by barcode; columns are some of FIELDS, cells text or None.

    `outcome` is there where the table brings its own: columns type, E and T in days.
    """

    layout: str
    fields: pd.DataFrame
    notes: tuple[str, ...] = ()
    outcome: pd.DataFrame | None = None


@dataclass(frozen=True)
class TableLayout:
    """One way in which these tables are handed out, and the columns that give it away."""

    name: str
    needs: tuple[str, ...]
    read: Callable[[pd.DataFrame], Clinical]


def barcodes(column: pd.Series) -> pd.Series:
    """The patient's 12 characters of barcodes, which R may have written with dots."""
    return column.str.replace(".", "-", regex=False).str.upper().str[:_BARCODE_LENGTH]


def one_row_per_patient(frame: pd.DataFrame, patient: str) -> pd.DataFrame:
    """The first row of each patient, indexed by barcode; rows without one are left out."""
    named = frame[frame[patient].notna()]
    indexed = named.set_index(pd.Index(barcodes(named[patient]), name="pid"))
    return indexed[~indexed.index.duplicated()]


def select_columns(frame: pd.DataFrame, sources: dict[str, str]) -> pd.DataFrame:
    """The columns that are there, under GDC's names: `sources` is field → column."""
    there = {field: column for field, column in sources.items() if column in frame}
    return frame[list(there.values())].set_axis(pd.Index(list(there)), axis="columns")


def recognise(frame: pd.DataFrame, layouts: Sequence[TableLayout]) -> TableLayout | None:
    """The first layout whose columns are all there."""
    columns = set(map(str, frame.columns))
    return next((layout for layout in layouts if columns.issuperset(layout.needs)), None)


_PHARMACEUTICAL = frozenset(
    {
        "Pharmaceutical Therapy, NOS",
        "Chemotherapy",
        "Hormone Therapy",
        "Immunotherapy (Including Vaccines)",
        "Targeted Molecular Therapy",
    }
)


def pharmaceutical(patients: pd.Index, records: pd.DataFrame) -> pd.Series:
    """Whether patients had drugs: "yes" if any treatment says so, else "no", else what is told.

    The older exports have two records for each patient, one pharmaceutical and one of
    radiation, and the paper's recipe takes the former; the newer ones list every treatment by
    its kind. `records` is indexed by patient and has the columns kind and given. A patient
    without a record of a drug is "not reported", as the exports with a record for everybody
    have it.
    """
    drugs = records[records["kind"].isin(_PHARMACEUTICAL) & records["given"].notna()]
    strongest = drugs.assign(rank=drugs["given"].map({"yes": 0, "no": 1}).fillna(2))
    given = strongest.sort_values("rank", kind="stable")["given"]
    return given[~given.index.duplicated()].reindex(patients).fillna(NOT_REPORTED)


# R's TCGAbiolinks, `GDCquery_clinic(…, "clinical")`: one row per patient. Exports of 2020 have
# `tumor_stage`, later ones have not.
_DRUG_TREATMENT = "treatments_pharmaceutical_treatment_or_therapy"


def _read_tcgabiolinks(frame: pd.DataFrame) -> Clinical:
    rows = one_row_per_patient(frame, "submitter_id")
    sources = {field: field for field in FIELDS} | {TREATMENT: _DRUG_TREATMENT}
    return Clinical(TCGABIOLINKS.name, select_columns(rows, sources))


TCGABIOLINKS = TableLayout(
    "TCGAbiolinks", ("submitter_id", "age_at_index", _DRUG_TREATMENT), _read_tcgabiolinks
)


# The file clinical.tsv of the GDC portal, in the three shapes it had so far.
#
# 2019: one row per patient, age in days only, treatments without their kind.
# 2020 to 2023: one row per patient and treatment.
# Since 2024: dotted names, one row per patient, diagnosis and treatment.
#
# Several rows become one patient: demographic fields are the same in all of them; the diagnosis
# is the one marked as primary disease, or else the first; the treatment is told by all drug
# treatments of that diagnosis.
_DAYS_IN_A_YEAR = 365.25
_TREATMENT_KIND = "treatment_type"
_PRIMARY = "diagnosis_is_primary_disease"


def _read_2019(frame: pd.DataFrame) -> Clinical:
    rows = one_row_per_patient(frame, "submitter_id")
    fields = select_columns(rows, {field: field for field in FIELDS if field != TREATMENT})
    days = pd.to_numeric(rows["age_at_diagnosis"], errors="coerce")
    fields.insert(0, AGE, np.floor(days / _DAYS_IN_A_YEAR))
    note = (
        "Ages are whole years of age_at_diagnosis, which this table has in days; its "
        "treatment_or_therapy is not used, since it does not say what the treatment was."
    )
    return Clinical(_LAYOUT_2019.name, fields, (note,))


def _read_2020(frame: pd.DataFrame) -> Clinical:
    return _collapse(_LAYOUT_2020.name, frame, "case_submitter_id")


def _read_2024(frame: pd.DataFrame) -> Clinical:
    sources = {"patient": "cases.submitter_id", _PRIMARY: f"diagnoses.{_PRIMARY}"}
    for field in FIELDS:
        sources[field] = f"{'demographic' if field in DEMOGRAPHIC else 'diagnoses'}.{field}"
    for field in (_TREATMENT_KIND, TREATMENT):
        sources[field] = f"treatments.{field}"
    return _collapse(_LAYOUT_2024.name, select_columns(frame, sources), "patient")


def _collapse(name: str, frame: pd.DataFrame, patient: str) -> Clinical:
    rows = _primary_diagnosis(frame[frame[patient].notna()], patient)
    first = one_row_per_patient(rows, patient)
    fields = select_columns(first, {field: field for field in FIELDS if field != TREATMENT})
    if not {_TREATMENT_KIND, TREATMENT} <= set(rows):
        return Clinical(name, fields)
    records = pd.DataFrame(
        {"kind": rows[_TREATMENT_KIND].to_numpy(), "given": rows[TREATMENT].to_numpy()},
        index=pd.Index(barcodes(rows[patient]), name="pid"),
    )
    fields[TREATMENT] = pharmaceutical(fields.index, records)
    return Clinical(name, fields)


def _primary_diagnosis(frame: pd.DataFrame, patient: str) -> pd.DataFrame:
    """Rows marked primary; every row of a patient who has no such mark."""
    if _PRIMARY not in frame:
        return frame
    primary = frame[_PRIMARY].str.lower().eq("true")
    marked = primary.groupby(frame[patient]).transform("any")
    return frame[primary | ~marked]


_LAYOUT_2024 = TableLayout(
    "GDC portal since 2024", ("cases.submitter_id", f"demographic.{AGE}"), _read_2024
)
_LAYOUT_2020 = TableLayout("GDC portal 2020 to 2023", ("case_submitter_id", AGE), _read_2020)
_LAYOUT_2019 = TableLayout(
    "GDC portal 2019", ("submitter_id", "project_id", "age_at_diagnosis"), _read_2019
)
GDC_PORTAL = (_LAYOUT_2024, _LAYOUT_2020, _LAYOUT_2019)


# The file data_clinical_patient.txt of a TCGA study in cBioPortal. Values are spelt in capitals
# there and are put back into GDC's spelling. The table has an overall survival of its own, in
# months of 30.417 days.
_DAYS_IN_A_MONTH = 30.417
_CBIOPORTAL_COLUMNS = {
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
_IN_CAPITALS = (
    "ethnicity",
    "gender",
    "race",
    "ajcc_staging_system_edition",
    "prior_malignancy",
)
# GDC's words for what this table leaves empty.
_LEFT_EMPTY = {
    "ethnicity": NOT_REPORTED,
    "race": NOT_REPORTED,
    "prior_malignancy": NOT_REPORTED,
    "prior_treatment": "Not Reported",
}
_TUMOR_NODE_METASTASIS = re.compile(r"([A-Z]*?)([TNM])(X|(?=[0-9]|IS))(.*)")
_STATUS = {"0:LIVING": 0, "LIVING": 0, "1:DECEASED": 1, "DECEASED": 1}


def _read_cbioportal(frame: pd.DataFrame) -> Clinical:
    rows = one_row_per_patient(frame, "PATIENT_ID")
    fields = select_columns(rows, _CBIOPORTAL_COLUMNS)
    for field in (name for name in _IN_CAPITALS if name in fields):
        fields[field] = fields[field].str.lower()
    for letter in "mnt":
        field = f"ajcc_pathologic_{letter}"
        if field in fields:
            fields[field] = fields[field].map(_tumor_node_metastasis, na_action="ignore")
    if "ajcc_pathologic_stage" in fields:
        stage = fields["ajcc_pathologic_stage"]
        fields["ajcc_pathologic_stage"] = stage.str.replace(r"^STAGE\b", "Stage", regex=True)
    fields = fields.fillna({k: v for k, v in _LEFT_EMPTY.items() if k in fields})
    return Clinical(CBIOPORTAL.name, fields, outcome=_outcome_in_months(rows))


def _tumor_node_metastasis(text: str) -> str:
    """`T1C` → `T1c`, `N0 (I-)` → `N0 (i-)`, `CM0 (I+)` → `cM0 (i+)`, `TIS` → `Tis`, `NX`."""
    parts = _TUMOR_NODE_METASTASIS.fullmatch(text)
    if parts is None:
        return text
    return f"{parts[1].lower()}{parts[2]}{parts[3]}{parts[4].lower()}"


def _outcome_in_months(rows: pd.DataFrame) -> pd.DataFrame | None:
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


CBIOPORTAL = TableLayout("cBioPortal", ("PATIENT_ID", "AGE", "SEX"), _read_cbioportal)


# The phenotype table of UCSC Xena's GDC hub: one row per sample, names with a suffix. All
# samples of a patient carry the same clinical fields. Older tables have stages and drug
# treatment under the names of the enrolment forms, newer ones under GDC's, with all treatments
# of a patient in one cell: `['yes', 'no']`.
_FORM_NAMES = {
    "ajcc_pathologic_m": "pathologic_M",
    "ajcc_pathologic_n": "pathologic_N",
    "ajcc_pathologic_t": "pathologic_T",
    "ajcc_staging_system_edition": "system_version",
    TREATMENT: "postoperative_rx_tx",
}
_TREATMENT_LISTS = {
    "kind": "treatment_type.treatments.diagnoses",
    "given": f"{TREATMENT}.treatments.diagnoses",
}
_ITEM = re.compile(r"'([^']*)'|\"([^\"]*)\"")


def _read_xena(frame: pd.DataFrame) -> Clinical:
    rows = one_row_per_patient(frame, "submitter_id")
    sources = {}
    for field in FIELDS:
        name = f"{field}.{'demographic' if field in DEMOGRAPHIC else 'diagnoses'}"
        sources[field] = name if name in rows else _FORM_NAMES.get(field, name)
    fields = select_columns(rows, sources)
    if set(_TREATMENT_LISTS.values()) <= set(rows):
        fields[TREATMENT] = pharmaceutical(rows.index, _treatments(rows))
    elif TREATMENT in fields:
        fields[TREATMENT] = fields[TREATMENT].str.lower().fillna(NOT_REPORTED)
    return Clinical(XENA.name, fields)


def _treatments(rows: pd.DataFrame) -> pd.DataFrame:
    """One row per treatment, from two columns of lists in the same order."""
    lists = pd.DataFrame(
        {name: rows[column].map(_items) for name, column in _TREATMENT_LISTS.items()}
    )
    even = lists["kind"].str.len() == lists["given"].str.len()
    return lists[even].explode(["kind", "given"])


def _items(cell: object) -> list[str]:
    if not isinstance(cell, str):
        return []
    if not cell.startswith("["):
        return [cell]
    return [single or double for single, double in _ITEM.findall(cell)]


XENA = TableLayout(
    "UCSC Xena", ("submitter_id", "age_at_index.demographic", "gender.demographic"), _read_xena
)


#: In the order in which they are tried.
LAYOUTS: tuple[TableLayout, ...] = (TCGABIOLINKS, *GDC_PORTAL, CBIOPORTAL, XENA)
