"""Which centers a table shows one by one, and which it sums up in one row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fedcox.analysis.fitted import CenterRow

MOST_CENTERS = 20


@dataclass(frozen=True)
class CenterChoice:
    """Centers shown by name, and the rest to be shown as a sum."""

    shown: tuple[CenterRow, ...]
    rest: tuple[CenterRow, ...]

    @property
    def rest_name(self) -> str:
        return f"{len(self.rest):,} smaller centers"


def choose_centers(centers: Sequence[CenterRow], *, most: int = MOST_CENTERS) -> CenterChoice:
    """All centers in their order, or the largest ones where there are too many to read."""
    if len(centers) <= most + 1:  # a "rest" of one center would be a name withheld for nothing
        return CenterChoice(tuple(centers), ())
    by_size = sorted(centers, key=lambda center: -center.patients)
    return CenterChoice(tuple(by_size[:most]), tuple(by_size[most:]))
