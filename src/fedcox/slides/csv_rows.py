"""What do the rows of a small table say? Comma, semicolon or tab; every value as text."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from io import StringIO
from pathlib import Path

from fedcox.errors import CohortError


def read_rows(path: str | Path, columns: Sequence[str]) -> list[dict[str, str]]:
    """The rows of a CSV file with at least these columns; CohortError where there are none.

    Spaces around names and values do not count, nor do rows without any value.
    """
    (_, header), *lines = _cells(Path(path))
    rows = [row for _, row in lines]
    missing = [name for name in columns if name not in header]
    faults = []
    if missing:
        faults.append(
            f"There is no column {_listed(missing)}; found {_listed(header)}. "
            "Add it, or name the one that is meant."
        )
    twice = sorted({name for name in columns if header.count(name) > 1})
    if twice:
        faults.append(f"Column {_listed(twice)} is there more than once; keep one.")
    ragged = [str(line) for line, row in lines if len(row) != len(header)]
    if ragged:
        faults.append(
            f"{len(ragged)} row(s) do not have {len(header)} values, as the header has: "
            f"{some(ragged, 'line')}."
        )
    if faults:
        raise CohortError(f"Cannot use the table {path}.", faults)
    return [dict(zip(header, row, strict=True)) for row in rows]


def some(names: Sequence[str], what: str = "") -> str:
    """The first few of many names, and how many more there are."""
    shown = ", ".join(f"{what} {name}".strip() for name in names[:8])
    return shown if len(names) <= 8 else f"{shown} and {len(names) - 8} more"


def _cells(path: Path) -> list[tuple[int, list[str]]]:
    """The rows with a value, each with the number of its (last) line in the file."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise CohortError(f"Cannot read {path}.", ["Save it as UTF-8 text."]) from None
    except OSError as error:
        raise CohortError(f"Cannot read {path}: {error.strerror or error}.") from None
    first = next((line for line in text.splitlines() if line.strip()), "")
    # Lines end where the reader says: a quoted value may hold an end of line.
    reader = csv.reader(StringIO(text, newline=""), delimiter=max(",;\t", key=first.count))
    try:
        cells = [(reader.line_num, [cell.strip() for cell in row]) for row in reader]
    except csv.Error as error:
        raise CohortError(f"Cannot read {path} as a table: {error}.") from None
    filled = [(line, row) for line, row in cells if any(row)]
    if len(filled) < 2:
        raise CohortError(f"The table {path} has no row.", ["Give a header and rows below it."])
    return filled


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)
