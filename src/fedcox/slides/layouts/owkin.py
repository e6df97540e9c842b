"""Owkin (HistoSSLscaling): `SLIDE/features.npy`, three columns of places before the features.

These are level, column and row in a deep zoom pyramid, which halves the slide until it is one
pixel and counts levels from there. So pixels of level 0 need the size of the slide.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedcox.slides.feature_files import NumpyFeatures, numpy_array, table_shape, unusable
from fedcox.slides.layouts.hdf5_bag import stat_digest
from fedcox.slides.opened_bag import AbstractLayout, KnownSlide, OpenedBag
from fedcox.survival.cohort import FloatArray

FILE = "features.npy"
_PLACES = 3


@dataclass(frozen=True)
class Owkin(AbstractLayout):
    """The folder of a slide, or the file in it."""

    @property
    def name(self) -> str:
        return "Owkin"

    def fits(self, path: Path) -> bool:
        return path.name == FILE or (path / FILE).is_file()

    def open(self, path: Path, known: KnownSlide) -> OpenedBag:
        file = path / FILE if path.is_dir() else path
        array = numpy_array(file)
        tiles, columns = table_shape(file, array.shape)
        if columns <= _PLACES:
            raise unusable(
                file, f"It has {columns} columns; three of places and features are needed."
            )
        places = np.asarray(array[:, :_PLACES], dtype=np.float64)
        _check_places(file, places)
        corners, tile, missing = None, None, ""
        if known.size is None:
            missing = (
                "Its places are of a deep zoom pyramid, and the slide's size is not known."
            )
        elif known.deepzoom_tile_px is None:
            missing = (
                "Its places are of a deep zoom pyramid, and the size of its tiles is not told. "
                "Say --deepzoom-tile-px, which is 224 for most encoders and 256 for some."
            )
        else:
            corners, tile = _pixels(file, places, known.size, known.deepzoom_tile_px)
        return OpenedBag(
            NumpyFeatures(file, (tiles, columns - _PLACES), _PLACES),
            self.name,
            stat_digest(file),
            corners,
            missing,
            mpp=known.mpp,
            tile_px_level0=tile,
        )


def _check_places(path: Path, places: FloatArray) -> None:
    whole = np.isfinite(places).all() and (places >= 0).all() and (places % 1 == 0).all()
    if not whole:
        raise unusable(
            path,
            "Its first three columns are not level, column and row of tiles in a deep zoom "
            "pyramid.",
        )


def _pixels(
    path: Path, places: FloatArray, size: tuple[int, int], tile_px: int
) -> tuple[FloatArray, float | None]:
    """Upper left corners at level 0, and the side of a tile where all are of one level."""
    highest = int(np.ceil(np.log2(max(size)))) if max(size) > 1 else 0
    levels = places[:, 0]
    if (levels > highest).any():
        raise unusable(
            path, f"Tiles are of level {levels.max():g}; a slide of this size has {highest}."
        )
    sides = tile_px * 2.0 ** (highest - levels)
    corners = places[:, 1:] * sides[:, None]
    if (corners >= np.asarray(size)).any():
        raise unusable(path, "Some tiles lie outside of the slide; it is another slide's size.")
    return corners, float(sides[0]) if (sides == sides[0]).all() else None
