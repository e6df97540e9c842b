"""How a downloaded table is opened: separated text, perhaps gzipped, every cell as text."""

from __future__ import annotations

import csv
import gzip
import io
import os
import re
import zlib
from pathlib import Path

import pandas as pd

from fedcox.data.wording import is_missing
from fedcox.errors import InputError

EXCEL_START = b"PK\x03\x04"

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
    if content.startswith(EXCEL_START):
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
