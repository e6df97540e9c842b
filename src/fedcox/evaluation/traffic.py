"""What training cost in messages: rounds, and bytes over all centers."""

from __future__ import annotations

from dataclasses import dataclass

from fedcox.federation.ledger import Ledger


@dataclass(frozen=True)
class Traffic:
    """Real messages, counted from the ledger."""

    rounds: int
    bytes_up: int
    bytes_down: int

    @classmethod
    def since(cls, ledger: Ledger, mark: tuple[int, int]) -> Traffic:
        rows = ledger.since(mark)
        return cls(
            ledger.rounds - mark[0],
            sum(row.bytes_up for row in rows),
            sum(row.bytes_down for row in rows),
        )
