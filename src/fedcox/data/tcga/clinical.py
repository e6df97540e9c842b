"""What every clinical table of TCGA becomes: one row per patient, GDC's field names.

A layout is recognised by its columns, never by the name of the file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pandas as pd

#: The number among the covariates.
AGE = "age_at_index"
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
    "treatment_or_therapy",
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
class Layout:
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


def selected(frame: pd.DataFrame, sources: dict[str, str]) -> pd.DataFrame:
    """The columns that are there, under GDC's names: `sources` is field → column."""
    there = {field: column for field, column in sources.items() if column in frame}
    return frame[list(there.values())].set_axis(pd.Index(list(there)), axis="columns")


def recognised(frame: pd.DataFrame, layouts: Sequence[Layout]) -> Layout | None:
    """The first layout whose columns are all there."""
    columns = set(map(str, frame.columns))
    return next((layout for layout in layouts if columns.issuperset(layout.needs)), None)
