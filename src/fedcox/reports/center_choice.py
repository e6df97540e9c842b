"""Which centers a table shows one by one, and which it sums up in one row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fedcox.study.fit_rows import CenterRow

MOST_CENTERS = 20


@dataclass(frozen=True)
class CenterChoice:
    """Centers shown by name, and the rest to be shown as a sum."""

    shown: tuple[CenterRow, ...]
    rest: tuple[CenterRow, ...]
    by_size: bool = True

    @property
    def rest_name(self) -> str:
        return f"{len(self.rest):,} {'smaller' if self.by_size else 'more'} centers"


def choose_centers(centers: Sequence[CenterRow], *, most: int = MOST_CENTERS) -> CenterChoice:
    """All centers in their order, or the largest ones where there are too many to read.

    Where sizes are not known, the first ones.
    """
    if len(centers) <= most + 1:  # a "rest" of one center would be a name withheld for nothing
        return CenterChoice(tuple(centers), ())
    sizes = known_sizes(centers)
    chosen = sorted(centers, key=lambda center: -(center.patients or 0)) if sizes else centers
    return CenterChoice(tuple(chosen[:most]), tuple(chosen[most:]), by_size=bool(sizes))


def known_sizes(centers: Sequence[CenterRow]) -> list[int] | None:
    """Patients of each center, or None where only sums over centers were seen."""
    sizes = [center.patients for center in centers if center.patients is not None]
    return sizes if len(sizes) == len(centers) else None
