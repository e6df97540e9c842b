"""The paper's recipe: covariates as numbers and indicators, regions of source sites as centers.

Age is a number, categories are indicators, rare ones dropped: this gives the published table of
BRCA cell by cell, and the paper's numbers of columns for the other cancers. The 64 source
sites, which barcodes name, are too small to be centers; the paper joins them into regions.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

import pandas as pd

from fedcox.data.columns import read_numbers
from fedcox.data.wording import columns_there, counted, quoted
from fedcox.errors import InputError
from fedcox.paper.tcga.downloads import read_text_table
from fedcox.paper.tcga.layouts import AGE, CATEGORIES, NOT_REPORTED

#: An indicator that fewer patients have is dropped: the paper's "95 % missing".
SMALLEST_SHARE = 0.05
#: The region of sites that the federation leaves out.
OTHER = "Other"
#: Of a site that the table of regions does not have.
UNKNOWN = "unknown"
_CODE, _REGION = "TSS Code", "Region"
_SITE = slice(5, 7)  # TCGA-A7-A13F


@dataclass(frozen=True, eq=False)
class Covariates:
    """One number per patient and column; `rare` names the indicators that were dropped."""

    frame: pd.DataFrame
    rare: tuple[str, ...]


def covariates(fields: pd.DataFrame) -> Covariates:
    """Indicators `<field>_<level>` for all levels but the alphabetically first.

    A patient without a value has none of a field's indicators; "not reported" is a level. An
    age that is missing stays missing.
    """
    fields = with_tumor_stage(fields)
    columns: dict[str, pd.Series] = {}
    rare = []
    if AGE in fields:
        columns[AGE] = _ages(fields[AGE])
    for field in CATEGORIES:
        if field not in fields:
            continue
        _, *others = sorted(fields[field].dropna().unique()) or [None]
        for level in others:
            name, indicator = f"{field}_{level}", fields[field].eq(level).astype("int64")
            if indicator.mean() < SMALLEST_SHARE:
                rare.append(name)
            else:
                columns[name] = indicator
    return Covariates(pd.DataFrame(columns, index=fields.index), tuple(rare))


def _ages(column: pd.Series) -> pd.Series:
    numbers = read_numbers(column)
    wrong = int(numbers.unreadable.sum())
    if wrong:
        raise InputError(
            "This clinical table cannot be used as it is.",
            [f"{AGE}: {counted(wrong, 'cell is', 'cells are')} not a number."],
        )
    return pd.Series(numbers.values, index=column.index)


def with_tumor_stage(fields: pd.DataFrame) -> pd.DataFrame:
    """`tumor_stage` as it was until 2020: the pathologic stage in small letters."""
    if "tumor_stage" in fields or "ajcc_pathologic_stage" not in fields:
        return fields
    stage = fields["ajcc_pathologic_stage"].str.lower().fillna(NOT_REPORTED)
    return fields.assign(tumor_stage=stage)


def source_sites(patients: pd.Index) -> pd.Series:
    """The code of the site that each barcode names."""
    return pd.Series(patients.str[_SITE], index=patients)


def read_regions(path: str | os.PathLike[str]) -> dict[str, str]:
    """Source site code → region, from a table with the columns TSS Code and Region.

    Codes are text: "01" is not "1", and "NA" is a code.
    """
    frame = read_text_table(path)
    lacking = [name for name in (_CODE, _REGION) if name not in frame]
    if lacking:
        raise InputError(
            f"{path}: this table does not give regions to source sites.",
            [
                f"It lacks the column{'s' if len(lacking) > 1 else ''} {quoted(lacking)}.",
                columns_there([str(name) for name in frame.columns]),
                f"Pass a table with a row for each source site: its code under '{_CODE}', the "
                f"center it belongs to under '{_REGION}'. GDC's own table of codes has no "
                "regions.",
            ],
        )
    pairs = frame[[_CODE, _REGION]].drop_duplicates()
    faults = _faults(pairs)
    if faults:
        raise InputError(f"{path}: these regions cannot be used as they are.", faults)
    return dict(zip(pairs[_CODE], pairs[_REGION], strict=True))


def _faults(pairs: pd.DataFrame) -> list[str]:
    faults = []
    cut = int(pairs[_CODE].str.len().ne(2).sum())
    if cut:
        faults.append(
            f"{counted(cut, 'code does', 'codes do')} not have two characters: a spreadsheet "
            "may have made 1 of 01. Store the codes as text."
        )
    twice = sorted(set(pairs.loc[pairs[_CODE].duplicated(), _CODE]))
    if twice:
        faults.append(f"{quoted(twice)} {'lies' if len(twice) == 1 else 'lie'} in two regions.")
    return faults


def regions_of(sites: pd.Series, regions: dict[str, str]) -> pd.Series:
    """The region of each patient; OTHER and UNKNOWN are no centers."""
    region = sites.map(regions).replace("", UNKNOWN).fillna(UNKNOWN)
    return region.mask(region.str.lower() == OTHER.lower(), OTHER)


def federated_centers(center: pd.Series, sites: pd.Series) -> tuple[list[str], list[str]]:
    """The regions that take part, and why the patients of the others do not."""
    counts = center.value_counts()
    notes = []
    if OTHER in counts:
        notes.append(
            f"{counted(int(counts[OTHER]), 'patient')} of the region '{OTHER}' "
            f"{_stay(counts[OTHER])} out of the federation."
        )
    if UNKNOWN in counts:
        codes = sorted(sites[center == UNKNOWN].unique())
        notes.append(
            f"{counted(int(counts[UNKNOWN]), 'patient')} {_stay(counts[UNKNOWN])} out of the "
            "federation: the table of regions does not have the source "
            f"site{'s' if len(codes) > 1 else ''} {quoted(codes)}."
        )
    named = counts.drop([OTHER, UNKNOWN], errors="ignore")
    notes += [
        f"Region {name} has a single patient, who stays out of the federation."
        for name in sorted(named.index[named == 1])
    ]
    return sorted(named.index[named > 1]), notes


def _stay(patients: int) -> str:
    return "stays" if patients == 1 else "stay"
