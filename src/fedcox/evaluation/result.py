"""What one test set says about one scheme: a row, and the file that holds an experiment's rows.

An interrupted run goes on where its file stops. JSON lines: a header with everything that
determines the numbers, then one row for each scheme and test set, written as soon as it is
there. A line cut short by a sudden end is dropped; a file with another header is not added to.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

from fedcox.errors import InputError, OutputError
from fedcox.files.writing import write_atomically

_LIBRARIES = ("fedcox", "numpy", "scipy", "xgboost", "xgboost-cpu")
#: Test folds from all centers together, or all patients of one center.
Evaluation = Literal["folds", "left out"]
#: What tells one row of an experiment from every other.
RowKey = tuple[int, str, int | str, str]
#: Names the kind of file; a reader of another kind refuses it.
FORMAT = "fedcox evaluation, 1"
Header = Mapping[str, Any]


def library_versions() -> dict[str, str]:
    """Python's and that of every library that is installed."""
    versions = {"python": platform.python_version()}
    for name in _LIBRARIES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions


@dataclass(frozen=True)
class Row:
    """One scheme, trained on the patients outside one test set and judged on those inside.

    `fold` counts from one and is None where `center` was left out; the other way round with
    folds. `c_index` is None where no two test patients could be compared or nothing could be
    trained, which `notes` then says. `trained_on` counts training patients, `patients` and
    `events` those of the test set. `rounds` and bytes are those of the training's messages.
    """

    experiment: str
    seed: int
    evaluation: Evaluation
    fold: int | None
    center: str | None
    scheme: str
    c_index: float | None
    patients: int
    events: int
    trained_on: int
    seconds: float
    rounds: int
    bytes_up: int
    bytes_down: int
    notes: tuple[str, ...] = ()

    @property
    def test_set(self) -> int | str:
        """The fold's number, or the name of the center that was left out."""
        return self.fold if self.fold is not None else str(self.center)

    @property
    def key(self) -> RowKey:
        return self.seed, self.evaluation, self.test_set, self.scheme

    def to_line(self) -> str:
        """One line of JSON, with its end."""
        return json.dumps(asdict(self), allow_nan=False, ensure_ascii=False) + "\n"

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Row:
        """The row whose JSON this is; ValueError where it is another thing."""
        names = {field.name for field in fields(cls)}
        if set(record) != names:
            raise ValueError("not a row of an evaluation")
        return cls(**{**record, "notes": tuple(record["notes"])})


@dataclass
class ResultFile:
    """A file that is open for more rows."""

    path: Path
    rows: list[Row]

    def add(self, row: Row) -> None:
        """Write one row; it is safe from an end of this process when this returns."""
        try:
            with self.path.open("ab") as file:
                file.write(row.to_line().encode())
        except OSError as error:
            raise _unwritable(self.path, error) from error
        self.rows.append(row)


def open_results(path: Path, header: Header) -> ResultFile:
    """Begin a file, or go on with one that has the same header."""
    text = header_line(header)
    if not path.exists() or not path.read_bytes().strip():
        write_atomically(path, text)
        return ResultFile(path, [])
    header_there, rows, length = _read(path)
    differing = differences(header_there, json.loads(text))
    if differing:
        raise InputError(
            f"{path} holds the results of another experiment.",
            [
                *differing,
                "Choose another place for the new results, or begin again with --overwrite.",
            ],
        )
    try:
        with path.open("rb+") as file:
            file.truncate(length)
    except OSError as error:
        raise _unwritable(path, error) from error
    return ResultFile(path, rows)


def holds_results(path: Path) -> bool:
    """Whether a file begins as results do; an empty one may become a file of results."""
    with _readable(path), path.open("rb") as file:
        first = file.readline()
    return not first.strip() or (_record(first) or {}).get("format") == FORMAT


def read_results(path: str | Path) -> tuple[dict[str, Any], tuple[Row, ...]]:
    """The header and the rows of a file, whether or not the run came to its end."""
    header, rows, _ = _read(Path(path))
    return header, tuple(rows)


def write_results(path: Path, header: Header, rows: Iterable[Row]) -> None:
    """Put the whole file in place at once, its rows in the order given."""
    write_atomically(path, (header_line(header), *(row.to_line() for row in rows)))


def header_line(header: Header) -> str:
    """The first line; keys in the order given."""
    return json.dumps({"format": FORMAT, **header}, allow_nan=False, ensure_ascii=False) + "\n"


def differences(there: Any, wanted: Any, place: str = "") -> list[str]:
    """Where two headers differ, each place in a sentence; empty if they do not."""
    if isinstance(there, dict) and isinstance(wanted, dict):
        return [
            sentence
            for key in dict.fromkeys([*there, *wanted])
            for sentence in differences(
                there.get(key), wanted.get(key), f"{place}, {key}" if place else key
            )
        ]
    if there == wanted:
        return []
    if place == "patients, sha256":
        return ["The patients are not the same."]
    return [f"{place}: the file has {_shown(there)}, and {_shown(wanted)} was asked for."]


def _shown(value: Any) -> str:
    text = "none" if value is None else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 100 else f"{text[:97]}…"


def _read(path: Path) -> tuple[dict[str, Any], list[Row], int]:
    """Header, rows, and how many bytes of the file are whole lines."""
    with _readable(path):
        content = path.read_bytes()
    length = content.rfind(b"\n") + 1
    lines = content[:length].splitlines()
    header = _record(lines[0]) if lines else None
    if header is None or header.get("format") != FORMAT:
        raise InputError(
            f"{path} is not a file of evaluation results that this version can read.",
            [f'Its first line must hold "format": "{FORMAT}".'],
        )
    rows: dict[Any, Row] = {}
    for number, line in enumerate(lines[1:], start=2):
        try:
            row = Row.from_record(_record(line) or {})
        except (TypeError, ValueError):
            raise InputError(
                f"Line {number} of {path} is not a row of an evaluation.",
                ["Somebody changed the file; begin again with --overwrite, or elsewhere."],
            ) from None
        rows.setdefault(row.key, row)
    return header, list(rows.values()), length


def _record(line: bytes) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) else None


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(f"Cannot read {path}: {error.strerror or error}.") from error


def _unwritable(path: Path, error: OSError) -> OutputError:
    return OutputError(
        f"Cannot write {path}: {error.strerror or error}.",
        ["The rows that were there before are kept; the run can go on when this is mended."],
    )
