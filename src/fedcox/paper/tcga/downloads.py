"""How a downloaded table is opened, and who died when by the TCGA clinical data resource.

Separated text, perhaps gzipped, every cell as text; of the outcome (overall survival, Liu et
al. 2018) an Excel workbook, too.
"""

from __future__ import annotations

import csv
import gzip
import io
import os
import re
import zlib
from pathlib import Path
from zipfile import BadZipFile

import pandas as pd

from fedcox.data.wording import columns_there, counted, is_missing, listed, quoted
from fedcox.errors import InputError
from fedcox.paper.tcga.layouts import barcodes

SHEET = "TCGA-CDR"
EXTRA = "pip install 'fedcox[experiments]'"
_COLUMNS = ("bcr_patient_barcode", "type", "OS", "OS.time")

_EXCEL_START = b"PK\x03\x04"

_GZIP_START = b"\x1f\x8b"
_DELIMITERS = ("\t", ",", ";")
# What the GDC portal writes into an empty cell, before and after its exports were made safe
# against spreadsheets that take a leading dash for a formula.
_PORTAL_MARKS = ("--", "'--")
# [Not Available], [Unknown] and the like: the enrolment forms' words for an empty box.
_EMPTY_BOX = re.compile(r"\[[A-Z][^\[\]'\"]*\]")


def content_of(path: str | os.PathLike[str]) -> bytes:
    """The bytes of a file, unpacked where they are gzipped."""
    file = Path(path)
    try:
        content = file.read_bytes()
        if content.startswith(_GZIP_START):
            content = gzip.decompress(content)
    except FileNotFoundError:
        raise InputError(f"{file}: there is no such file.") from None
    except IsADirectoryError:
        raise InputError(f"{file}: this is a folder; one file is needed.") from None
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or "it is damaged"
        raise InputError(f"{file}: this file cannot be read: {reason}.") from None
    if not content.strip():
        raise InputError(f"{file}: this file is empty.")
    return content


def read_text_table(path: str | os.PathLike[str]) -> pd.DataFrame:
    """Read a table with trimmed text in all cells; lines with a # at the top are comments."""
    return text_table(path, content_of(path))


def text_table(path: str | os.PathLike[str], content: bytes) -> pd.DataFrame:
    """The table that the bytes of a file hold."""
    if content.startswith(_EXCEL_START):
        raise InputError(
            f"{path}: this is an Excel workbook or another zipped file.",
            ["Only the outcome table is read from Excel. Unpack it, or save it as CSV."],
        )
    frame = _parsed(path, _below_comments(_decoded(path, content)))
    if frame.empty:
        raise InputError(f"{path}: this file has a header line and no rows below it.")
    return frame.map(str.strip).rename(columns=lambda name: str(name).strip())


def with_gaps(frame: pd.DataFrame) -> pd.DataFrame:
    """The same cells, None where one says "no value" in any of the ways of TCGA's tables."""
    return frame.map(lambda text: None if _is_gap(text) else text).astype(object)


def _is_gap(text: str) -> bool:
    return is_missing(text) or text in _PORTAL_MARKS or _EMPTY_BOX.fullmatch(text) is not None


def _decoded(path: str | os.PathLike[str], content: bytes) -> str:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise InputError(
            f"{path}: this file is not UTF-8 text.",
            ["Pass the table as it was downloaded, or saved as CSV with the encoding UTF-8."],
        )
    return text


def _below_comments(text: str) -> str:
    start = 0
    while text.startswith("#", start):
        end = text.find("\n", start)
        start = len(text) if end < 0 else end + 1
    return text[start:]


def _parsed(path: str | os.PathLike[str], text: str) -> pd.DataFrame:
    delimiter = max(_DELIMITERS, key=text.lstrip("\r\n").partition("\n")[0].count)
    lines = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        header, *rows = [row for row in lines if row]
    except (csv.Error, ValueError):  # a quotation mark left open, or nothing below the comments
        raise _torn(path) from None
    widths = {len(row) for row in rows}
    if widths == {len(header) + 1}:  # R writes row names under no name
        header = ["", *header]
    elif widths - {len(header)}:
        raise _torn(path)
    return pd.DataFrame(rows, columns=pd.Index(header, dtype=object), dtype=object)


def _torn(path: str | os.PathLike[str]) -> InputError:
    return InputError(
        f"{path}: this file cannot be taken apart into rows and columns.",
        [
            "Every row needs as many cells as the header, and every quotation mark that is "
            "opened must be closed. Pass the table as it was downloaded."
        ],
    )


def is_outcome(names: set[str]) -> bool:
    """Whether these are the columns of the outcome table."""
    return names.issuperset(_COLUMNS)


def read_outcome(path: str | os.PathLike[str]) -> pd.DataFrame:
    """All cancers of the table: index barcode; columns type, E (1 = death), T (days).

    An Excel workbook is recognised by its content; NaN where event or time is missing.
    """
    content = content_of(path)
    excel = content.startswith(_EXCEL_START)
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
