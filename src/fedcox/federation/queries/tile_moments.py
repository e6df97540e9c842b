"""How do the features of tiles go together? Their second moments, from which a reducer comes.

Sums of x xᵀ over tiles, not centered: the paper's linear autoencoder has no bias.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedcox.errors import CohortError
from fedcox.federation.queries.tile_counts import PatientsAndTiles
from fedcox.federation.query import AbstractSumQuery
from fedcox.federation.sums import FieldSum, Shapes, pack_symmetric, triangle, unpack_symmetric
from fedcox.survival.bags import Bags, TileFeatures
from fedcox.survival.bounds import between
from fedcox.survival.cohort import Cohort, FloatArray

#: Tiles whose products are summed at a time. In single precision this would take half the
#: time, and turn the reducer's directions by more than 1e-6.
_BLOCK = 1024
#: Moments of more would be a message above the size that is sent.
_MOST_FEATURES = 16_000


@dataclass(frozen=True, eq=False)
class TileMomentSums(FieldSum):
    """Patients, tiles, and the upper triangle of Σ x xᵀ, row by row."""

    patients: int
    tiles: int
    upper: FloatArray  # (features · (features + 1) / 2,)

    @property
    def second(self) -> FloatArray:
        """Σ x xᵀ (features, features)."""
        return unpack_symmetric(self.upper)

    def faults(self, columns: int | None) -> Iterator[str]:
        yield from PatientsAndTiles(self.patients, self.tiles).faults(columns)


@dataclass(frozen=True)
class TileMoments(AbstractSumQuery[TileMomentSums]):
    """Second moments of all tiles of all patients, who have `features` numbers per tile."""

    words: ClassVar = {
        "tile moments": "how the features of tiles go together: sums of their products over "
        "all tiles, about no single one"
    }

    features: int

    @property
    def numbers(self) -> int:
        return 1

    #: All: encoders differ in scale by orders, and small eigenvalues count too. Under masks
    #: this is four times as long, 67 MB for 2048 features, and asked once.
    fine = None

    def faults(self, columns: int | None) -> Iterator[str]:
        """A center has to hold a square of them."""
        yield from between("features", self.features, 1, _MOST_FEATURES)

    def shapes(self, columns: int | None) -> Shapes:
        return {"upper": (triangle(self.features),)}

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
