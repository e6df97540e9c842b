"""What left each center: one row per round, center and question."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

#: A number travels as a double.
BYTES_PER_NUMBER = 8


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """One reply: how many numbers went to the center and how many left it."""

    round: int
    center: str
    query: str
    numbers_up: int
    bytes_up: int
    numbers_down: int
    bytes_down: int


@dataclass
class Ledger:
    """Grows with every question; rows are kept as plain tuples, since there may be many."""

    rounds: int = 0
    _entries: list[tuple[int, str, str, int, int]] = field(default_factory=list)

    def open_round(self) -> None:
        self.rounds += 1

    def record(self, center: str, query: str, up: int, down: int) -> None:
        """Note one reply: `up` numbers left the center, `down` numbers went to it."""
        self._entries.append((self.rounds, center, query, up, down))

    def mark(self) -> tuple[int, int]:
        """A place to count from, see `since`."""
        return self.rounds, len(self._entries)

    def since(self, mark: tuple[int, int]) -> tuple[LedgerRow, ...]:
        """Rows written after `mark`, their rounds counted from one."""
        return tuple(self._rows(*mark))

    def _rows(self, rounds: int, entries: int) -> Iterator[LedgerRow]:
        for number, center, query, up, down in self._entries[entries:]:
            yield LedgerRow(
                number - rounds,
                center,
                query,
                up,
                up * BYTES_PER_NUMBER,
                down,
                down * BYTES_PER_NUMBER,
            )
