"""What left each center: the ledger's file, and its sums per center and query."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from fedcox.errors import InputError
from fedcox.federation.ledger import LedgerRow
from fedcox.files.writing import write_atomically


@dataclass(frozen=True)
class Traffic:
    """How often something was asked, how much went to and from the coordinator, how protected.

    `epsilon` is spent once by a whole study, however many replies it has.
    """

    times: int = 0
    numbers_up: int = 0
    bytes_up: int = 0
    numbers_down: int = 0
    bytes_down: int = 0
    protections: frozenset[str] = frozenset()
    epsilon: float | None = None

    @classmethod
    def together(cls, parts: Iterable[Traffic]) -> Traffic:
        """Any number as one; none of them is nothing."""
        many = tuple(parts)
        epsilons = (part.epsilon for part in many if part.epsilon is not None)
        return cls(
            sum(part.times for part in many),
            sum(part.numbers_up for part in many),
            sum(part.bytes_up for part in many),
            sum(part.numbers_down for part in many),
            sum(part.bytes_down for part in many),
            frozenset[str]().union(*{part.protections for part in many}),
            max(epsilons, default=None),
        )

    @classmethod
    def of(cls, row: LedgerRow) -> Traffic:
        """One reply."""
        return cls(
            1,
            row.numbers_up,
            row.bytes_up,
            row.numbers_down,
            row.bytes_down,
            frozenset((row.protection,)),
            row.epsilon,
        )


@dataclass(frozen=True)
class LedgerSummary:
    """Sums of a ledger; centers and queries stand in the order they first appear in."""

    cells: Mapping[tuple[str, str], Traffic]
    centers: tuple[str, ...]
    queries: tuple[str, ...]

    def of(self, center: str, query: str) -> Traffic:
        return self.cells.get((center, query), Traffic())

    def of_center(self, center: str) -> Traffic:
        return Traffic.together(self.of(center, query) for query in self.queries)

    def of_query(self, query: str) -> Traffic:
        return self.of_centers(self.centers, query)

    def of_centers(self, centers: Iterable[str], query: str) -> Traffic:
        return Traffic.together(self.of(center, query) for center in centers)

    @cached_property
    def total(self) -> Traffic:
        return Traffic.together(self.cells.values())


def summarise(rows: Iterable[LedgerRow]) -> LedgerSummary:
    """Add up a ledger per center and query."""
    replies: dict[tuple[str, str], list[Traffic]] = {}
    for row in rows:
        replies.setdefault((row.center, row.query), []).append(Traffic.of(row))
    cells = {key: Traffic.together(traffic) for key, traffic in replies.items()}
    return LedgerSummary(
        cells,
        centers=tuple(dict.fromkeys(center for center, _ in cells)),
        queries=tuple(dict.fromkeys(query for _, query in cells)),
    )


def write_ledger(rows: Iterable[LedgerRow], path: str | Path) -> None:
    """Write one JSON object per line, whole or not at all."""
    write_atomically(path, (json.dumps(_record(row)) + "\n" for row in rows))


def _record(row: LedgerRow) -> dict[str, object]:
    return row._asdict()


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
            told = json.loads(line)
            told.pop("smallest_group", None)  # which earlier versions wrote
            yield LedgerRow(**told)
        except (AttributeError, TypeError, ValueError) as error:
            raise InputError(
                f"Line {number} of {path} is not a row of a ledger.",
                ["Give the ledger.jsonl that `fedcox fit` wrote beside its fit.json."],
            ) from error
