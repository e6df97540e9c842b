"""What left each center: one row per round, center and question."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakSet

if TYPE_CHECKING:
    from fedcox.federation.query import AbstractQuery, Agreed

#: A number travels as a double.
BYTES_PER_NUMBER = 8


class LedgerRow(NamedTuple):
    """One reply: how many numbers went to the center and how many left it, and how protected.

    `protection` is "none", "masks", "noise" or "masks and noise". `epsilon` is what the reply's
    study spends, under noise.
    """

    round: int
    center: str
    query: str
    numbers_up: int
    bytes_up: int
    numbers_down: int
    bytes_down: int
    protection: str = "none"
    epsilon: float | None = None


@dataclass
class Ledger:
    """Grows with every question."""

    rounds: int = 0
    _kept: list[LedgerRow] = field(default_factory=list)
    _sent: WeakSet[Agreed] = field(default_factory=WeakSet, repr=False)

    def open_round(self) -> None:
        self.rounds += 1

    def numbers_down(self, query: AbstractQuery[Any]) -> int:
        """How many numbers ask this; what is agreed on goes down with its first question."""
        agreed = query.setting
        if agreed is None or agreed in self._sent:
            return query.numbers
        self._sent.add(agreed)
        return query.numbers + agreed.numbers

    def record(
        self,
        center: str,
        query: str,
        up: int,
        down: int,
        *,
        bytes_up: int | None = None,
        protection: str = "none",
        epsilon: float | None = None,
    ) -> None:
        """Note one reply: `up` numbers left the center, `down` numbers went to it.

        Without `bytes_up` every number is a double.
        """
        sent = up * BYTES_PER_NUMBER if bytes_up is None else bytes_up
        self._kept.append(
            LedgerRow(
                self.rounds,
                center,
                query,
                up,
                sent,
                down,
                down * BYTES_PER_NUMBER,
                protection,
                epsilon,
            )
        )

    def take_over(self, rows: Sequence[LedgerRow]) -> None:
        """One round as it was written down before, in a run that was broken off."""
        self.open_round()
        for row in rows:
            self.record(
                row.center,
                row.query,
                row.numbers_up,
                row.numbers_down,
                bytes_up=row.bytes_up,
                protection=row.protection,
                epsilon=row.epsilon,
            )

    def mark(self) -> tuple[int, int]:
        """A place to count from, see `since`."""
        return self.rounds, len(self._kept)

    def since(self, mark: tuple[int, int]) -> tuple[LedgerRow, ...]:
        """Rows written after `mark`, their rounds counted from one."""
        rounds, first = mark
        rows = self._kept[first:]
        # A thousand centers leave many rows, and most are counted from the beginning.
        if not rounds:
            return tuple(rows)
        return tuple(row._replace(round=row.round - rounds) for row in rows)
