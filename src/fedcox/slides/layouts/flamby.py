"""FLamby (Fed-Camelyon16): `SLIDE.tif.npy` with features alone; one table has all places.

That table, `tiling_coordinates_camelyon16.csv`, has the columns slide_name (in small letters),
coords_x and coords_y: upper left corners in pixels of level 0. It comes with FLamby's program,
and is put beside the features. Tiles are 224 pixels wide at level 1, which is half of level 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from fedcox.errors import CohortError
from fedcox.slides.csv_rows import read_rows
from fedcox.slides.feature_files import NumpyFeatures, numpy_array, table_shape, unusable
from fedcox.slides.layouts.hdf5_bag import check_places, stat_digest
from fedcox.slides.layouts.owkin import FILE
from fedcox.slides.opened_bag import AbstractLayout, KnownSlide, OpenedBag
from fedcox.survival.cohort import FloatArray

TABLE = "tiling_coordinates_camelyon16.csv"
_SIDE = 2 * 224.0


@dataclass(frozen=True)
class Flamby(AbstractLayout):
    """Any array of numpy's that is not Owkin's."""

    @property
    def name(self) -> str:
        return "FLamby"

    def fits(self, path: Path) -> bool:
        return path.is_file() and path.suffix == ".npy" and path.name != FILE

    def open(self, path: Path, known: KnownSlide) -> OpenedBag:
        shape = table_shape(path, numpy_array(path).shape)
        table = path.with_name(TABLE)
        coords = _places(table).get(path.name.removesuffix(".npy").lower())
        check_places(path, shape[0], coords)
        return OpenedBag(
            NumpyFeatures(path, shape),
            self.name,
            stat_digest(path),
            coords,
            "" if coords is not None else f"It is not in {TABLE} beside it.",
            mpp=known.mpp,
            tile_px_level0=None if coords is None else _SIDE,
        )


def _places(table: Path) -> dict[str, FloatArray]:
    return _read(table, table.stat().st_mtime_ns) if table.is_file() else {}


@lru_cache(maxsize=4)
def _read(table: Path, changed: int) -> dict[str, FloatArray]:
    """Places by slide; kept, since one table is about every slide of a folder."""
    columns = ("slide_name", "coords_x", "coords_y")
    found: dict[str, list[tuple[float, float]]] = {}
    try:
        for row in read_rows(table, columns):
            name, x, y = (row[column] for column in columns)
            found.setdefault(name.lower(), []).append((float(x), float(y)))
    except (CohortError, ValueError):
        raise unusable(table, f"It needs the columns {', '.join(columns)}.") from None
    return {name: np.array(places) for name, places in found.items()}
