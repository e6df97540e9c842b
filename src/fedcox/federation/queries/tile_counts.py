"""How many patients have slides, and how many tiles? Asked before anything about the tiles."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from fedcox.federation.query import AbstractSumQuery
from fedcox.federation.sums import FieldSum
from fedcox.survival.bounds import MOST_PATIENTS
from fedcox.survival.cohort import Cohort

_MOST_TILES = 10**13


@dataclass(frozen=True)
class PatientsAndTiles(FieldSum):
    """Patients, and the tiles of all their slides."""

    patients: int
    tiles: int

    def faults(self, columns: int | None) -> Iterator[str]:
        """Every patient has a tile, and sums are divided by their number."""
        fitting = 0 <= self.patients <= min(self.tiles, MOST_PATIENTS)
        if not fitting or self.tiles > _MOST_TILES:
            yield "patients and tiles are no counts of the same patients"


@dataclass(frozen=True)
class TileCounts(AbstractSumQuery[PatientsAndTiles]):
    """The size of a center, in patients and in tiles."""

    words: ClassVar = {"tile counts": "how many patients with slides, and how many tiles"}

    @property
    def numbers(self) -> int:
        return 0

    def answer(self, cohort: Cohort) -> PatientsAndTiles:
        if cohort.bags is None:
            return PatientsAndTiles(0, 0)
        return PatientsAndTiles(cohort.patients, cohort.bags.tiles)
