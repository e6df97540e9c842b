"""Read a hospital's file: CSV or Parquet.

CSV is read as text, so that the code "01" stays "01" and every cell that is not what the study
expects can be told by its line. No message of the reading library goes further: such messages
quote the cells they stumble over.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from fedcox.data.encoding import LoadedCohort, cohort_from_frame
from fedcox.data.faults import LINE_INDEX
from fedcox.data.schema import CohortSchema
from fedcox.data.wording import counted, places
from fedcox.errors import CohortError
from fedcox.files.reading import too_large_fault

TEXT_SUFFIXES = (".csv", ".tsv", ".txt")
PARQUET_SUFFIXES = (".parquet", ".pq")

_WHAT_A_FILE_HOLDS = "The first line names the columns; one line per patient follows."
_OPEN_QUOTE = "Check that every quotation mark that is opened is also closed."
_DELIMITERS = (",", ";", "\t", "|")
_END = "fedcox end of file"
#: Bytes of a value of Parquet's types; of text there is at least where it begins.
_WIDTHS = {"BOOLEAN": 0.125, "INT32": 4, "FLOAT": 4, "INT64": 8, "DOUBLE": 8, "INT96": 8}
_OFFSET = 4
_LARGEST_BLOCK = 1 << 30  # bytes; pyarrow counts a block's bytes in 32 bits


def read_cohort(
    path: str | os.PathLike[str], schema: CohortSchema, *, center: str | None = None
) -> LoadedCohort:
    """Read one center's file; faults are raised at once under the file's and center's name."""
    file = Path(path)
    source = str(file) if center is None else f"{center} ({file})"
    return cohort_from_frame(read_table(file), schema, source=source)


def read_table(path: str | os.PathLike[str]) -> pd.DataFrame:
    """Read a file as a table; the cells of a CSV file stay text.

    The index of a CSV file's table holds line numbers, wherever they are known.
    """
    file = Path(path)
    suffix = file.suffix.lower()
    if file.is_dir():
        raise CohortError(f"{file}: this is a folder; one file of patients is needed.")
    if suffix not in TEXT_SUFFIXES + PARQUET_SUFFIXES:
        raise CohortError(
            f"{file}: this kind of file is not read.",
            ["Save the table as CSV (.csv, .tsv, .txt) or as Parquet (.parquet, .pq)."],
        )
    content = _content(file)
    if suffix in PARQUET_SUFFIXES:
        return _parquet(file, content)
    return _delimited(file, content)


def _content(file: Path) -> bytes:
    try:
        check_size(file, file.stat().st_size)
        content = file.read_bytes()
    except FileNotFoundError:
        raise CohortError(f"{file}: there is no such file.") from None
    except OSError as error:
        raise CohortError(f"{file}: this file cannot be read: {error.strerror}.") from None
    if not content.strip(b" \t\r\n\xef\xbb\xbf"):
        raise CohortError(f"{file}: this file is empty.", [_WHAT_A_FILE_HOLDS])
    return content


def check_size(file: Path, declared: int) -> None:
    """Refuse a file that declares more than the machine can hold."""
    fault = too_large_fault(declared)
    if fault is not None:
        raise CohortError(f"{file}: this file is too large to be read.", [fault])


def _parquet(file: Path, content: bytes) -> pd.DataFrame:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        check_size(file, _declared(pq.read_metadata(pa.BufferReader(content))))
        table = pq.read_table(pa.BufferReader(content))
        # An index that pandas stored is a column like any other: it may be the patient's id.
        frame: pd.DataFrame = table.to_pandas(ignore_metadata=True)
    except CohortError:
        raise
    except (pa.ArrowException, OSError, ValueError, TypeError, KeyError, MemoryError):
        # What damaged metadata raises depends on where the damage is.
        raise CohortError(
            f"{file}: this is not a Parquet file, or it is damaged.",
            ["Write it again; a CSV file must have a name that ends in .csv."],
        ) from None
    if frame.empty:
        raise CohortError(f"{file}: this file is empty: it has no patients.")
    return frame


def _declared(metadata: Any) -> int:
    """Bytes of the table in memory, at least: one value may stand for any number of rows."""
    kinds = [metadata.schema.column(at).physical_type for at in range(metadata.num_columns)]
    row = sum(_WIDTHS.get(kind, _OFFSET) for kind in kinds)
    # Of single columns pyarrow is not asked: on some damage it ends the process.
    groups = [metadata.row_group(at) for at in range(metadata.num_row_groups)]
    rows = max(int(metadata.num_rows), sum(int(group.num_rows) for group in groups))
    return max(int(rows * row), sum(int(group.total_byte_size) for group in groups))


def _delimited(file: Path, content: bytes) -> pd.DataFrame:
    text = _utf8(file, content)
    delimiter = _delimiter(text)
    try:
        header = next(csv.reader(_lines(text), delimiter=delimiter))
    except csv.Error:  # a quotation mark left open makes one name of the whole file
        raise CohortError(_not_a_table(file), [_OPEN_QUOTE]) from None
    names = [name.strip() for name in header]
    table = _parsed(file, text, delimiter, len(names))
    frame: pd.DataFrame = table.to_pandas(types_mapper=pd.ArrowDtype)
    frame.columns = pd.Index(names)
    # A blank line or a line break inside a cell shifts the lines: then rows are counted.
    lines = text.rstrip(b"\r\n").count(b"\n") + 1
    if lines == len(frame) + 1:
        frame.index = pd.RangeIndex(2, lines + 1, name=LINE_INDEX)
    frame = _without_blank_rows(frame)
    if frame.empty:
        raise CohortError(
            f"{file}: this file is empty: it has a header line and no patients.",
            [_WHAT_A_FILE_HOLDS],
        )
    return frame


def _utf8(file: Path, content: bytes) -> bytes:
    """The file as UTF-8 text without a byte order mark, each line with a line feed."""
    advice = "Save it as CSV with the encoding UTF-8 (in Excel: 'CSV UTF-8')."
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise CohortError(f"{file}: this file is UTF-16 text, not UTF-8.", [advice])
    try:
        content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise CohortError(
            f"{file}: this file is not UTF-8 text (line {line}).", [advice]
        ) from None
    text = content.removeprefix(b"\xef\xbb\xbf")
    return text if b"\n" in text else text.replace(b"\r", b"\n")


def _lines(text: bytes) -> Iterator[str]:
    """The lines one by one, since the header is all that is wanted of a large file."""
    return io.TextIOWrapper(io.BytesIO(text.lstrip(b"\r\n")), encoding="utf-8", newline="")


def _delimiter(text: bytes) -> str:
    """The delimiter that the header line has most of, outside quotation marks."""
    header = next(_lines(text))
    unquoted = "".join(header.split('"')[::2])
    return max(_DELIMITERS, key=unquoted.count)


def _parsed(file: Path, text: bytes, delimiter: str, columns: int) -> Any:
    """The file's rows below the header as an Arrow table of strings."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    uneven: list[int] = []

    def note_uneven(row: Any) -> str:
        uneven.append(row.number)
        return "skip"

    # A quotation mark left open would swallow every patient after it without a word, and with
    # them this last row.
    end = f"\n{_END}{delimiter * (columns - 1)}\n".encode()
    numbers = [str(number) for number in range(columns)]
    try:
        table = arrow_csv.read_csv(
            pa.BufferReader(text + end),
            read_options=arrow_csv.ReadOptions(
                column_names=numbers,
                use_threads=False,  # rows can only be numbered in order
                block_size=min(len(text) + len(end), _LARGEST_BLOCK),
            ),
            parse_options=arrow_csv.ParseOptions(
                delimiter=delimiter, newlines_in_values=True, invalid_row_handler=note_uneven
            ),
            convert_options=arrow_csv.ConvertOptions(
                column_types=dict.fromkeys(numbers, pa.string())
            ),
        )
    except pa.ArrowException:
        table = None
    if table is None or table.num_rows < 2 or table.column(0)[-1].as_py() != _END:
        raise CohortError(_not_a_table(file), [_OPEN_QUOTE])
    if uneven:
        rows = counted(len(uneven), "row has", "rows have")
        raise CohortError(
            _not_a_table(file),
            [
                f"{rows} more or fewer cells than the header, which has {columns} "
                f"({places(uneven, noun='row')}, where the header is row 1 and blank lines do "
                "not count). Put cells that contain the delimiter in quotation marks."
            ],
        )
    return table.slice(1, table.num_rows - 2)


def _not_a_table(file: Path) -> str:
    return f"{file}: this file cannot be taken apart into rows and columns."


def _without_blank_rows(frame: pd.DataFrame) -> pd.DataFrame:
    """Spreadsheets export rows of nothing but delimiters: nobody is in them."""
    blank = (frame.iloc[:, 0] == "").to_numpy(dtype="bool")
    for position in range(1, frame.shape[1]):
        if not blank.any():
            return frame
        blank &= (frame.iloc[:, position] == "").to_numpy(dtype="bool")
    return frame[~blank]
