"""The paper's covariates: age as a number, categories as indicators, rare ones dropped.

The recipe is the one that gives the published table of BRCA cell by cell, and the paper's
numbers of columns for the other cancers.
"""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from fedcox.data.columns import read_numbers
from fedcox.data.tcga.clinical import AGE, CATEGORIES, NOT_REPORTED
from fedcox.data.wording import counted
from fedcox.errors import InputError

#: An indicator that fewer patients have is dropped: the paper's "95 % missing".
SMALLEST_SHARE = 0.05


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
