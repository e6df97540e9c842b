"""What a file of tile features says, whichever laboratory's layout it is in."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path

from fedcox.survival.bags import SlideFeatures
from fedcox.survival.cohort import FloatArray


@dataclass(frozen=True)
class KnownSlide:
    """What some layouts leave to the slide itself.

    `mpp` is the resolution of level 0 in micrometres per pixel and `size` its width and height
    in pixels. `deepzoom_tile_px` is the size of tiles that are named by their place in a deep
    zoom pyramid, which their file does not tell: 224 for most encoders, 256 for some.
    """

    mpp: float | None = None
    size: tuple[int, int] | None = None
    deepzoom_tile_px: int | None = None


@dataclass(frozen=True, eq=False)
class OpenedBag:
    """One slide's features, read when they are needed, and all that is known about them.

    `coords` (tiles, 2) are upper left corners in pixels of level 0. Where there are none,
    `no_coords` says why. `mpp` is the slide's resolution at level 0, `tile_px_level0` the side
    of a tile in its pixels. None is what the file does not tell. `reducer_sha256` is empty for
    features as an encoder gave them. `tissue_tiles` counts the slide's tiles with tissue, of
    which these may have been drawn. `digest` changes with the file's content.
    """

    features: SlideFeatures
    layout: str
    digest: str
    coords: FloatArray | None = None
    no_coords: str = ""
    encoder: str | None = None
    encoder_sha256: str | None = None
    reducer_sha256: str = ""
    mpp: float | None = None
    tile_px_level0: float | None = None
    tissue_tiles: int | None = None


class AbstractLayout(ABC):
    """How one laboratory writes features."""

    @property
    @abstractmethod
    def name(self) -> str:
        """As it is called in messages."""

    @abstractmethod
    def fits(self, path: Path) -> bool:
        """Whether the file, or the folder, is in this layout. It exists."""

    @abstractmethod
    def open(self, path: Path, known: KnownSlide) -> OpenedBag:
        """The bag; SlideError where it cannot be used."""
