"""What lets a center see for itself what all centers summed: life tables and covariates."""

from __future__ import annotations

from dataclasses import dataclass

from fedcox.federation.ledger import BYTES_PER_NUMBER
from fedcox.survival.time_grid import AnyGrid


@dataclass(frozen=True, eq=False)
class Evidence:
    """The round in which the centers summed their covariates, and their life tables on `grid`.

    The life table, with patients censored inside an interval at risk in it, was the last
    question of the round. `before` are the fingerprints of the others, and `transcript` is what
    every center signed.
    """

    grid: AnyGrid
    before: tuple[bytes, ...]
    transcript: bytes

    @property
    def numbers(self) -> int:
        """How many numbers of eight bytes this takes to send."""
        sent = sum(map(len, self.before)) + len(self.transcript)
        return self.grid.numbers + -(-sent // BYTES_PER_NUMBER)
