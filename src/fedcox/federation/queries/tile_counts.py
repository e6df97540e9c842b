"""How many patients have slides, and how many tiles? Asked before anything about the tiles."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedcox.federation.query import AbstractSumQuery
from fedcox.survival.cohort import Cohort, FloatArray


@dataclass(frozen=True)
class PatientsAndTiles:
    """Patients, and the tiles of all their slides."""

    patients: int
    tiles: int

    def __add__(self, other: PatientsAndTiles) -> PatientsAndTiles:
        return PatientsAndTiles(self.patients + other.patients, self.tiles + other.tiles)


@dataclass(frozen=True)
class TileCounts(AbstractSumQuery[PatientsAndTiles]):
    """The size of a center, in patients and in tiles."""

    @property
    def name(self) -> str:
        return "tile counts"

    @property
    def numbers(self) -> int:
        return 0

    def answer(self, cohort: Cohort) -> PatientsAndTiles:
        if cohort.bags is None:
            return PatientsAndTiles(0, 0)
        return PatientsAndTiles(cohort.patients, cohort.bags.tiles)

    def pack(self, answer: PatientsAndTiles) -> FloatArray:
        return np.array([answer.patients, answer.tiles], dtype=np.float64)

    def unpack(self, vector: FloatArray) -> PatientsAndTiles:
        return PatientsAndTiles(round(vector[0]), round(vector[1]))
