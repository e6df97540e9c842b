"""One table of patients from three files: clinical fields, outcome, regions."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from fedcox.data.wording import columns_there, counted, listed
from fedcox.errors import InputError
from fedcox.paper.tcga.downloads import (
    is_outcome,
    of_cancer,
    read_outcome,
    read_text_table,
    with_gaps,
)
from fedcox.paper.tcga.layouts import AGE, FIELDS, LAYOUTS, Clinical, TableLayout, recognise
from fedcox.paper.tcga.recipe import (
    SMALLEST_SHARE,
    Covariates,
    covariates,
    federated_centers,
    read_regions,
    regions_of,
    source_sites,
)
from fedcox.survival.cohort import Cohort

FilePath = str | os.PathLike[str]
_CODE = "morphology"
# 8140/3, once it has been taken for March of the year 8140.
_DATE = r"[A-Z][a-z]{2}-\d{2,4}|\d{1,2}-[A-Z][a-z]{2}"


@dataclass(frozen=True, eq=False)
class TcgaTable:
    """The patients of one type of cancer, as in the paper's table 1.

    `frame` has the columns pid, the covariates, E (1 = death), T (days), tss and center, one
    row per patient in the order of barcodes, those outside of `centers` included. `notes` says
    in whole sentences what was left out and why, `rare` which indicators were dropped.
    """

    cancer: str
    layout: str
    frame: pd.DataFrame
    covariates: tuple[str, ...]
    centers: tuple[str, ...]
    rare: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def federated(self) -> pd.DataFrame:
        """The patients of the centers."""
        return self.frame[self.frame["center"].isin(self.centers)].reset_index(drop=True)

    def cohorts(self) -> dict[str, Cohort]:
        """One cohort per center, columns as in `covariates`; times of zero stay zero.

        A patient's number is the row of `federated`.
        """
        names = list(self.covariates)
        return {
            str(center): Cohort(
                rows[names].to_numpy(np.float64),
                rows["T"].to_numpy(),
                rows["E"].eq(1).to_numpy(),
                rows.index.to_numpy(np.int64),
            )
            for center, rows in self.federated.groupby("center", sort=True)
        }


def read_tcga(
    *, clinical: FilePath, outcome: FilePath | None, regions: FilePath, cancer: str
) -> TcgaTable:
    """Read the patients of one cancer, such as "BRCA", from files as they are downloaded.

    `clinical` may have any layout that `fedcox.paper.tcga.layouts` lists, `outcome` is TCGA-CDR
    as Excel or CSV – None takes the outcome that a table of cBioPortal brings – and `regions`
    maps source sites to centers.
    """
    region_of_site = read_regions(regions)
    table = read_clinical(clinical)
    outcomes, source = _outcomes(table, clinical, outcome)
    chosen = of_cancer(outcomes, cancer, source)
    known = chosen.dropna(subset=["E", "T"])
    patients = known.index.intersection(table.fields.index).sort_values()
    if patients.empty:
        raise _nobody(table, outcomes, clinical, cancer)
    built = covariates(table.fields.loc[patients])
    sites = source_sites(patients)
    center = regions_of(sites, region_of_site)
    centers, outside = federated_centers(center, sites)
    if not centers:
        raise InputError(
            f"{regions}: no two patients of {cancer} belong to one region.", outside
        )
    frame = built.frame.assign(
        E=known.loc[patients, "E"].astype("int64"),
        T=known.loc[patients, "T"],
        tss=sites,
        center=center,
    ).reset_index(names="pid")
    return TcgaTable(
        cancer=cancer,
        layout=table.layout,
        frame=frame,
        covariates=tuple(built.frame.columns),
        centers=tuple(centers),
        rare=built.rare,
        notes=(
            *_join_notes(cancer, table, chosen, known),
            *table.notes,
            *_covariate_notes(table, built),
            *outside,
        ),
    )


def _outcomes(
    table: Clinical, clinical: FilePath, outcome: FilePath | None
) -> tuple[pd.DataFrame, str]:
    if outcome is not None:
        return read_outcome(outcome), str(outcome)
    if table.outcome is None:
        raise InputError(
            f"{clinical}: a table of {table.layout} needs an outcome beside it.",
            ["Pass the TCGA-CDR table, as Excel or CSV, as the outcome."],
        )
    return table.outcome, str(clinical)


def _nobody(
    table: Clinical, outcomes: pd.DataFrame, clinical: FilePath, cancer: str
) -> InputError:
    there = outcomes.loc[outcomes.index.intersection(table.fields.index), "type"]
    count = counted(len(table.fields), "patient")
    overlap = (
        f"It has {count}, of whom the outcome table files {len(there):,} under "
        f"{listed(sorted(there.dropna().unique()))}."
        if len(there)
        else f"It has {count}, of whom the outcome table has none."
    )
    return InputError(
        f"{clinical}: no patient of {cancer} with an outcome is in this table.",
        [overlap, f"Pass the clinical table of {cancer}, or another type of cancer."],
    )


def _join_notes(
    cancer: str, table: Clinical, chosen: pd.DataFrame, known: pd.DataFrame
) -> list[str]:
    without = len(chosen) - len(known)
    absent = len(known.index.difference(table.fields.index))
    extra = len(table.fields.index.difference(chosen.index))
    notes = []
    if without:
        notes.append(
            f"{counted(without, 'patient')} of {cancer} without a survival time or status: "
            "left out."
        )
    if absent:
        notes.append(
            f"{counted(absent, 'patient')} of {cancer} in the outcome table but not in the "
            "clinical one: left out."
        )
    if extra:
        notes.append(
            f"{counted(extra, 'patient')} of the clinical table not filed under {cancer} in "
            "the outcome table: left out."
        )
    return notes


def _covariate_notes(table: Clinical, built: Covariates) -> list[str]:
    notes = []
    lacking = [
        field
        for field in FIELDS
        if field not in table.fields
        and not (field == "tumor_stage" and "ajcc_pathologic_stage" in table.fields)
    ]
    if lacking:
        notes.append(f"The clinical table ({table.layout}) does not have {listed(lacking)}.")
    if AGE in built.frame:
        gaps = int(built.frame[AGE].isna().sum())
        if gaps:
            notes.append(f"{counted(gaps, 'patient has', 'patients have')} no {AGE}.")
    if built.rare:
        notes.append(
            f"{counted(len(built.rare), 'indicator')} of levels that fewer than "
            f"{SMALLEST_SHARE:.0%} of the patients have: dropped."
        )
    return notes


def read_clinical(path: str | os.PathLike[str]) -> Clinical:
    """Read a clinical table of any known layout."""
    frame = with_gaps(read_text_table(path))
    layout = recognise(frame, LAYOUTS)
    if layout is None:
        raise InputError(
            f"{path}: this is no clinical table of TCGA in a layout that is known.",
            _faults(frame),
        )
    return without_dates(layout.read(frame))


def _faults(frame: pd.DataFrame) -> list[str]:
    names = {str(name) for name in frame.columns}
    if is_outcome(names):
        return [
            "It is the outcome table, TCGA-CDR. Pass it as the outcome, and as the clinical "
            f"table one of {_known()}."
        ]
    return [
        *(_compared(layout, names) for layout in LAYOUTS),
        columns_there(list(map(str, frame.columns))),
        f"Pass the table of patients from one of {_known()}, as it was downloaded.",
    ]


def _compared(layout: TableLayout, names: set[str]) -> str:
    present = [name for name in layout.needs if name in names]
    lacking = [name for name in layout.needs if name not in names]
    has = f"has {listed(present)}, " if present else ""
    return f"{layout.name}: {has}lacks {listed(lacking)}."


def _known() -> str:
    return listed([layout.name for layout in LAYOUTS], joint="or")


def without_dates(clinical: Clinical) -> Clinical:
    """Leave morphology out where its codes became dates: 8260/3 and 8560/3 are one then."""
    if _CODE not in clinical.fields:
        return clinical
    spoilt = int(clinical.fields[_CODE].str.fullmatch(_DATE, na=False).sum())
    if not spoilt:
        return clinical
    note = (
        f"{_CODE} is left out: a spreadsheet turned {spoilt:,} of its codes into dates, which "
        "do not tell them apart any more."
    )
    fields = clinical.fields.drop(columns=_CODE)
    return replace(clinical, fields=fields, notes=(*clinical.notes, note))
