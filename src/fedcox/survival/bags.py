"""The slides of patients as bags of tiles: a row of features per tile, any number of tiles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedcox.errors import CohortError
from fedcox.survival.cohort import BoolArray, IntArray

TileFeatures: TypeAlias = NDArray[np.float16] | NDArray[np.float32]


class SlideFeatures(Protocol):
    """One slide; its features may lie in a file until they are read."""

    @property
    def shape(self) -> tuple[int, int]:
        """Tiles, features."""
        ...

    def read(self) -> TileFeatures:
        """(tiles, features), finite, at least one tile."""
        ...


@dataclass(frozen=True, eq=False)
class SlideArray:
    """A slide whose features are in memory."""

    array: TileFeatures

    @property
    def shape(self) -> tuple[int, int]:
        tiles, features = self.array.shape
        return tiles, features

    def read(self) -> TileFeatures:
        return self.array


@dataclass(frozen=True, eq=False)
class Bags:
    """The slides of every patient of a cohort, in its order; each patient has at least one.

    slides      for each patient a tuple of slides, each with a `shape` (tiles, features) and a
                `read()` that gives the features, float16 or float32; so they may stay in files
    features    of a tile, the same number for all slides: all come from one encoder

    Slides are never padded: a bag is as long as its slide has tiles.

    >>> import numpy as np
    >>> import fedcox
    >>> class Slide:
    ...     def __init__(self, features):
    ...         self.features, self.shape = features, features.shape
    ...     def read(self):
    ...         return self.features  # or np.load(file), when it is needed
    >>> one, other = (Slide(np.zeros((tiles, 8), "float16")) for tiles in (30, 12))
    >>> bags = fedcox.Bags(((one,), (other,)), features=8)
    >>> len(bags), bags.tiles
    (2, 42)

    Next: `fedcox.Cohort(…, bags=bags)`; `fedcox slides embed` makes features of whole slides.
    """

    slides: tuple[tuple[SlideFeatures, ...], ...]
    features: int

    def __post_init__(self) -> None:
        faults = []
        without = sum(not of_patient for of_patient in self.slides)
        if without:
            faults.append(f"{without} patient(s) have no slide; leave them out.")
        shapes = [slide.shape for of_patient in self.slides for slide in of_patient]
        other = sum(features != self.features for _, features in shapes)
        if other:
            faults.append(
                f"{other} slide(s) do not have {self.features} features per tile; "
                "all must come from one encoder."
            )
        empty = sum(tiles < 1 for tiles, _ in shapes)
        if empty:
            faults.append(f"{empty} slide(s) have no tile; leave them out.")
        if faults:
            raise CohortError("These slides do not belong to one cohort.", faults)

    def __len__(self) -> int:
        return len(self.slides)

    @property
    def tiles(self) -> int:
        """Of all slides together."""
        return sum(slide.shape[0] for of_patient in self.slides for slide in of_patient)

    def take(self, rows: BoolArray | IntArray) -> Bags:
        """The slides of some patients."""
        chosen = np.arange(len(self))[rows]
        return Bags(tuple(self.slides[row] for row in chosen), self.features)

    @classmethod
    def joined(cls, parts: Sequence[Bags]) -> Bags:
        """The slides of several cohorts, one after the other."""
        return cls(
            tuple(of_patient for part in parts for of_patient in part.slides), parts[0].features
        )
