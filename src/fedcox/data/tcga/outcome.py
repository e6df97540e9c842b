"""Who died when: overall survival of the TCGA clinical data resource (Liu et al. 2018)."""

from __future__ import annotations

import io
import os
from zipfile import BadZipFile

import pandas as pd

from fedcox.data.tcga.layouts import barcodes
from fedcox.data.tcga.text_table import EXCEL_START, content_of, text_table, with_gaps
from fedcox.data.wording import columns_there, counted, listed, quoted
from fedcox.errors import InputError

SHEET = "TCGA-CDR"
EXTRA = "pip install 'fedcox[experiments]'"

_COLUMNS = ("bcr_patient_barcode", "type", "OS", "OS.time")


def is_outcome(names: set[str]) -> bool:
    """Whether these are the columns of the outcome table."""
    return names.issuperset(_COLUMNS)


def read_outcome(path: str | os.PathLike[str]) -> pd.DataFrame:
    """All cancers of the table: index barcode; columns type, E (1 = death), T (days).

    An Excel workbook is recognised by its content; NaN where event or time is missing.
    """
    content = content_of(path)
    excel = content.startswith(EXCEL_START)
    frame = _sheet(path, content) if excel else text_table(path, content)
    lacking = [name for name in _COLUMNS if name not in frame]
    if lacking:
        raise InputError(
            f"{path}: this is not the outcome table, TCGA-CDR.",
            [
                f"It lacks the column{'s' if len(lacking) > 1 else ''} {quoted(lacking)}.",
                columns_there([str(name) for name in frame.columns]),
                "Pass TCGA-CDR-SupplementalTableS1.xlsx of Liu et al. 2018 "
                f"(doi 10.1016/j.cell.2018.02.052), or its sheet '{SHEET}' as CSV.",
            ],
        )
    rows = with_gaps(frame[list(_COLUMNS)])
    rows = rows[rows["bcr_patient_barcode"].notna()]
    table = pd.DataFrame(
        {
            "type": rows["type"].to_numpy(),
            "E": pd.to_numeric(rows["OS"], errors="coerce").to_numpy(dtype="float64"),
            "T": pd.to_numeric(rows["OS.time"], errors="coerce").to_numpy(dtype="float64"),
        },
        index=pd.Index(barcodes(rows["bcr_patient_barcode"]), name="pid"),
    )
    faults = _faults(table, rows)
    if faults:
        raise InputError(f"{path}: this outcome table cannot be used as it is.", faults)
    return table


def _sheet(path: str | os.PathLike[str], content: bytes) -> pd.DataFrame:
    try:
        import openpyxl
    except ImportError:
        raise InputError(
            f"{path}: reading an Excel workbook needs openpyxl, which is not installed.",
            [f"Install it: {EXTRA}", f"Or save the sheet '{SHEET}' as CSV and pass that."],
        ) from None

    try:
        workbook = openpyxl.load_workbook(io.BytesIO(content), read_only=True, data_only=True)
    except (BadZipFile, KeyError, OSError, ValueError):
        raise InputError(f"{path}: this is not an Excel workbook, or it is damaged.") from None
    try:
        if SHEET not in workbook.sheetnames:
            raise InputError(
                f"{path}: this workbook has no sheet '{SHEET}'.",
                [f"Its sheets are {quoted(workbook.sheetnames)}."],
            )
        header, *rows = [*workbook[SHEET].iter_rows(values_only=True)] or [()]
    finally:
        workbook.close()
    frame = pd.DataFrame(rows, columns=pd.Index(_text(name) for name in header), dtype=object)
    return frame.map(_text)


def _text(cell: object) -> str:
    return "" if cell is None else str(cell).strip()


def _faults(table: pd.DataFrame, rows: pd.DataFrame) -> list[str]:
    repeated = int(table.index.duplicated().sum())
    strange = {
        "OS": rows["OS"].notna().to_numpy() & ~table["E"].isin([0, 1]),
        "OS.time": rows["OS.time"].notna().to_numpy() & ~table["T"].ge(0),
    }
    needed = {"OS": "0 or 1", "OS.time": "a number of days, zero or more"}
    faults = [
        f"Column '{column}': {counted(int(wrong.sum()), 'value is', 'values are')} not "
        f"{needed[column]}."
        for column, wrong in strange.items()
        if wrong.any()
    ]
    if repeated:
        faults.append(f"{counted(repeated, 'patient is', 'patients are')} there twice.")
    return faults


def of_cancer(outcome: pd.DataFrame, cancer: str, source: str) -> pd.DataFrame:
    """The patients of one type of cancer, such as BRCA."""
    chosen = outcome[outcome["type"] == cancer]
    if chosen.empty:
        types = sorted(outcome["type"].dropna().unique())
        raise InputError(
            f"{source}: there are no patients of cancer type '{cancer}'.",
            [f"The types there are {listed(types)}. Pass one of them."],
        )
    return chosen
