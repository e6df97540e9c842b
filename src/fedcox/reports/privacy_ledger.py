"""What left each center: the ledger's file, and its sums per center and query."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from fedcox.analysis.atomic_file import write_atomically
from fedcox.errors import InputError
from fedcox.federation.ledger import LedgerRow


@dataclass(frozen=True)
class Traffic:
    """How often something was asked, how much went to and from the coordinator, how protected.

    `smallest_group` is the fewest patients that any part of the `counted` replies describes; of
    the other replies nobody knows. `epsilon` is spent once by a whole study, however many
    replies it has.
    """

    times: int = 0
    numbers_up: int = 0
    bytes_up: int = 0
    numbers_down: int = 0
    bytes_down: int = 0
    protections: frozenset[str] = frozenset()
    counted: int = 0
    smallest_group: int | None = None
    epsilon: float | None = None

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(
            self.times + other.times,
            self.numbers_up + other.numbers_up,
            self.bytes_up + other.bytes_up,
            self.numbers_down + other.numbers_down,
            self.bytes_down + other.bytes_down,
            self.protections | other.protections,
            self.counted + other.counted,
            _fewest(self.smallest_group, other.smallest_group),
            _most(self.epsilon, other.epsilon),
        )

    @classmethod
    def of(cls, row: LedgerRow) -> Traffic:
        """One reply."""
        # An exact count of patients beside a noised reply would undo what the noise is for.
        group = None if "noise" in row.protection else row.smallest_group
        return cls(
            1,
            row.numbers_up,
            row.bytes_up,
            row.numbers_down,
            row.bytes_down,
            frozenset((row.protection,)),
            int(group is not None),
            group,
            row.epsilon,
        )


def _fewest(one: int | None, other: int | None) -> int | None:
    """The smaller group; a group of nobody, as in an empty center, hides no other."""
    known = [group for group in (one, other) if group is not None]
    return min((group for group in known if group), default=0 if known else None)


def _most(one: float | None, other: float | None) -> float | None:
    return max((value for value in (one, other) if value is not None), default=None)


@dataclass(frozen=True)
class LedgerSummary:
    """Sums of a ledger; centers and queries stand in the order they first appear in."""

    cells: Mapping[tuple[str, str], Traffic]
    centers: tuple[str, ...]
    queries: tuple[str, ...]

    def of(self, center: str, query: str) -> Traffic:
        return self.cells.get((center, query), Traffic())

    def of_center(self, center: str) -> Traffic:
        return sum((self.of(center, query) for query in self.queries), Traffic())

    def of_query(self, query: str) -> Traffic:
        return sum((self.of(center, query) for center in self.centers), Traffic())

    @property
    def total(self) -> Traffic:
        return sum(self.cells.values(), Traffic())


def summarise(rows: Iterable[LedgerRow]) -> LedgerSummary:
    """Add up a ledger per center and query."""
    cells: dict[tuple[str, str], Traffic] = {}
    for row in rows:
        key = row.center, row.query
        cells[key] = cells.get(key, Traffic()) + Traffic.of(row)
    return LedgerSummary(
        cells,
        centers=tuple(dict.fromkeys(center for center, _ in cells)),
        queries=tuple(dict.fromkeys(query for _, query in cells)),
    )


def write_ledger(rows: Iterable[LedgerRow], path: str | Path) -> None:
    """Write one JSON object per line, whole or not at all."""
    write_atomically(path, (json.dumps(asdict(row)) + "\n" for row in rows))


def read_ledger(path: str | Path) -> tuple[LedgerRow, ...]:
    """Read a ledger.jsonl back; a line that is none is named by its number."""
    try:
        with Path(path).open(encoding="utf-8") as file:
            return tuple(_rows(file, path))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"Cannot read {path}: {getattr(error, 'strerror', None) or 'it is not UTF-8'}.",
            ["Give the ledger.jsonl that `fedcox fit` wrote beside its fit.json."],
        ) from error


def _rows(lines: Iterable[str], path: str | Path) -> Iterator[LedgerRow]:
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            yield LedgerRow(**json.loads(line))
        except (TypeError, ValueError) as error:
            raise InputError(
                f"Line {number} of {path} is not a row of a ledger.",
                ["Give the ledger.jsonl that `fedcox fit` wrote beside its fit.json."],
            ) from error
