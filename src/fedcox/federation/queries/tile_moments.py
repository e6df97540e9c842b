"""How do the features of tiles go together? Their second moments, from which a reducer comes.

Sums of x xᵀ over tiles, not centered: the paper's linear autoencoder has no bias.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedcox.errors import CohortError
from fedcox.federation.packing import pack_symmetric, unpack_symmetric
from fedcox.federation.query import AbstractSumQuery
from fedcox.survival.bags import Bags, TileFeatures
from fedcox.survival.cohort import Cohort, FloatArray

#: Tiles whose products are summed at a time. In single precision this would take half the
#: time, and turn the reducer's directions by more than 1e-6.
_BLOCK = 1024


@dataclass(frozen=True, eq=False)
class TileMomentSums:
    """Patients, tiles, and the upper triangle of Σ x xᵀ, row by row."""

    patients: int
    tiles: int
    upper: FloatArray  # (features · (features + 1) / 2,)

    @property
    def second(self) -> FloatArray:
        """Σ x xᵀ (features, features)."""
        return unpack_symmetric(self.upper)

    def __add__(self, other: TileMomentSums) -> TileMomentSums:
        return TileMomentSums(
            self.patients + other.patients,
            self.tiles + other.tiles,
            self.upper + other.upper,
        )


@dataclass(frozen=True)
class TileMoments(AbstractSumQuery[TileMomentSums]):
    """Second moments of all tiles of all patients, who have `features` numbers per tile."""

    features: int

    @property
    def name(self) -> str:
        return "tile moments"

    @property
    def numbers(self) -> int:
        return 1

    #: All: encoders differ in scale by orders, and small eigenvalues count too. Under masks
    #: this is four times as long, 67 MB for 2048 features, and asked once.
    fine = None

    def answer(self, cohort: Cohort) -> TileMomentSums:
        bags = self._bags(cohort)
        second = np.zeros((self.features, self.features))
        tiles = 0
        for own in bags.slides:
            for slide in own:
                features = slide.read()
                with np.errstate(invalid="ignore"):  # told below, for all slides
                    add_moments(second, features)
                tiles += len(features)
        if not np.isfinite(second).all():
            raise CohortError(
                "The features of some tiles are missing or not finite.",
                ["Compute the features of these slides anew, or leave them out."],
            )
        return TileMomentSums(cohort.patients, tiles, pack_symmetric(second))

    def pack(self, answer: TileMomentSums) -> FloatArray:
        return np.concatenate([[answer.patients, answer.tiles], answer.upper])

    def unpack(self, vector: FloatArray) -> TileMomentSums:
        return TileMomentSums(round(vector[0]), round(vector[1]), vector[2:])

    def _bags(self, cohort: Cohort) -> Bags:
        if cohort.bags is None:
            if cohort.patients:
                raise CohortError("These patients have no slides, and tiles are asked about.")
            return Bags((), self.features)
        if cohort.bags.features != self.features:
            raise CohortError(
                f"Tiles have {cohort.bags.features} features here, and are asked about as if "
                f"they had {self.features}.",
                ["All centers must use one encoder."],
            )
        return cohort.bags


def add_moments(second: FloatArray, features: TileFeatures) -> None:
    """Add the sum of x xᵀ over the tiles to `second`, block by block."""
    for start in range(0, len(features), _BLOCK):
        block = features[start : start + _BLOCK].astype(np.float64)
        second += block.T @ block
