"""What one column of a table holds: numbers, levels, gaps, or something that is neither.

A column comes as numbers (a data frame) or as text (a CSV file). Text is converted as a whole
first, and cell by cell only where that fails, so that a clean file of millions of cells is
read at once and a faulty one is still explained cell by cell.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from pandas.api import types

from fedcox.data.wording import canonical, has_thousands, is_date, is_missing, is_number
from fedcox.survival.cohort import BoolArray, FloatArray, IntArray

MISSING = -1
UNKNOWN = -2

Column = pd.Series  # of any type


@dataclass(frozen=True, eq=False)
class Numbers:
    """One number per patient; NaN where the cell is missing or unreadable.

    Of the unreadable cells so many seem to be numbers with a decimal comma, numbers with a mark
    between thousands, or dates.
    """

    values: FloatArray
    missing: BoolArray
    unreadable: BoolArray
    decimal_commas: int = 0
    thousands: int = 0
    dates: int = 0


@dataclass(frozen=True, eq=False)
class Distinct:
    """The different values of a column as text, and which of them each patient has."""

    codes: IntArray  # MISSING where the cell is empty
    texts: tuple[str, ...]

    def rows_where(self, matches: Callable[[str], bool], *, gaps: bool) -> BoolArray:
        """The patients whose value is told by its text; `gaps` for those without a value."""
        by_code = np.array([*map(matches, self.texts), gaps], dtype=np.bool_)
        return by_code[self.codes]  # MISSING is the last


def read_numbers(column: Column) -> Numbers:
    """Read a column of numbers; booleans are 0 and 1."""
    if _holds_numbers(column):
        values = column.to_numpy(dtype=np.float64, na_value=np.nan)
        return _readable(values)
    texts = _texts(column)
    values_or_none = _converted(texts)
    if values_or_none is None:
        texts = _without_marks(texts)
        values_or_none = _converted(texts)
    return _cell_by_cell(texts) if values_or_none is None else _readable(values_or_none)


def read_levels(column: Column, levels: Sequence[str]) -> IntArray:
    """Index of each patient's level; MISSING for no value, UNKNOWN for one not in the study.

    A level that is spelt like a missing value ("NA", ".") is a level.
    """
    exact = {level.strip(): index for index, level in enumerate(levels)}
    alike: dict[str, list[int]] = {}
    for index, level in enumerate(levels):
        alike.setdefault(canonical(level), []).append(index)
    distinct = distinct_values(column)
    lookup = np.full(len(distinct.texts) + 1, MISSING, dtype=np.int64)  # last: no value
    for code, text in enumerate(distinct.texts):
        near = alike.get(canonical(text), [])
        if text in exact:
            lookup[code] = exact[text]
        elif len(near) == 1:
            lookup[code] = near[0]
        elif not is_missing(text):
            lookup[code] = UNKNOWN
    return lookup[distinct.codes]


def distinct_values(column: Column) -> Distinct:
    """The different cells of a column, trimmed, numbers in their plain spelling."""
    if types.is_bool_dtype(column.dtype) or _holds_numbers(column):
        codes, values = pd.factorize(column)
        return Distinct(codes.astype(np.int64), tuple(_spelt(value) for value in values))
    encoded = _texts(column).dictionary_encode()
    codes = encoded.indices.fill_null(MISSING).to_numpy(zero_copy_only=False)
    return Distinct(codes.astype(np.int64), tuple(encoded.dictionary.to_pylist()))


def _spelt(value: Any) -> str:
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    return canonical(str(value))


def _holds_numbers(column: Column) -> bool:
    dtype = column.dtype
    if types.is_complex_dtype(dtype) or isinstance(dtype, pd.CategoricalDtype):
        return False
    return types.is_numeric_dtype(dtype) or types.is_bool_dtype(dtype)


def _readable(values: FloatArray) -> Numbers:
    return Numbers(values, np.isnan(values), np.zeros(values.size, dtype=np.bool_))


def _texts(column: Column) -> Any:
    """The column as trimmed Arrow strings, null where there is no value."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if isinstance(column.dtype, pd.ArrowDtype) and pa.types.is_string(
        column.dtype.pyarrow_dtype
    ):
        array = pa.array(column.array)
    else:
        gaps = column.isna().to_numpy(dtype=np.bool_)
        cells = column.astype(object).to_numpy()
        array = pa.array(
            [None if gap else str(cell) for cell, gap in zip(cells, gaps, strict=True)],
            type=pa.string(),
        )
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    return pc.utf8_trim_whitespace(array)


def _without_marks(texts: Any) -> Any:
    """The same texts with null for every mark that means "no value"."""
    import pyarrow as pa
    import pyarrow.compute as pc

    encoded = texts.dictionary_encode()
    gaps = pa.array([is_missing(text) for text in encoded.dictionary.to_pylist()], pa.bool_())
    is_gap = gaps.take(encoded.indices).fill_null(True)
    return pc.if_else(is_gap, pa.scalar(None, pa.string()), texts)


def _converted(texts: Any) -> FloatArray | None:
    """All texts as numbers, or None where one of them is not."""
    import pyarrow as pa

    try:
        numbers = texts.cast(pa.float64())
    except pa.ArrowInvalid:  # its message quotes the cell: it must go no further
        return None
    values: FloatArray = numbers.to_numpy(zero_copy_only=False)
    return values


def _cell_by_cell(texts: Any) -> Numbers:
    cells: list[str | None] = texts.to_pylist()
    truths = {"true": 1.0, "false": 0.0}
    if all(cell is None or cell.lower() in truths for cell in cells):
        return _readable(
            np.array([np.nan if cell is None else truths[cell.lower()] for cell in cells])
        )
    missing = np.array([cell is None for cell in cells], dtype=np.bool_)
    values = np.array([_number(cell) for cell in cells], dtype=np.float64)
    unreadable = np.isnan(values) & ~missing
    strange = [cell for cell, odd in zip(cells, unreadable, strict=True) if cell and odd]
    commas = {cell for cell in strange if is_number(cell.replace(",", ".", 1))}
    grouped = {cell for cell in strange if has_thousands(cell)}
    if commas <= grouped:  # "1,022" is a decimal where the column has "0,5" or "10,22" too
        commas = set()
    grouped -= commas
    return Numbers(
        values,
        missing,
        unreadable,
        decimal_commas=sum(cell in commas for cell in strange),
        thousands=sum(cell in grouped for cell in strange),
        dates=sum(is_date(cell) for cell in strange),
    )


def _number(cell: str | None) -> float:
    """The cell's number; NaN for no number. Infinity is a number, and refused later."""
    if cell is None:
        return np.nan
    if is_number(cell):
        return float(cell)
    sign = -1.0 if cell.startswith("-") else 1.0
    return sign * np.inf if cell.lower().lstrip("+-") in {"inf", "infinity"} else np.nan
