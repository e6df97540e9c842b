"""Layouts of features in arrays of numpy's and tensors of torch's: Slideflow, Owkin, FLamby."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from fedcox.errors import CohortError
from fedcox.slides.feature_files import (
    AbstractLayout,
    KnownSlide,
    OpenedBag,
    StoredFeatures,
    check_places,
    number,
    numpy_array,
    stat_digest,
    table_shape,
    text,
    torch_array,
    unusable,
)
from fedcox.slides.manifest import read_rows
from fedcox.survival.cohort import FloatArray


@dataclass(frozen=True)
class Slideflow(AbstractLayout):
    """slideflow: `SLIDE.pt`, a tensor, and `SLIDE.index.npz` or `.npy` with the places.

    Told from CLAM's tensors by what lies beside them. Places are the middles of tiles in pixels
    of level 0. The tile's size in micrometres and the encoder are in `bags_config.json` of the
    folder.
    """

    name = "slideflow"

    def fits(self, path: Path) -> bool:
        return (
            path.is_file()
            and path.suffix == ".pt"
            and (_index(path).is_file() or _config(path).is_file())
        )

    def open(self, path: Path, known: KnownSlide) -> OpenedBag:
        shape = table_shape(path, torch_array(path).shape)
        middles, config = _middles(path), _settings(path)
        check_places(path, shape[0], middles)
        tile_um = number(config.get("tile_um"))
        tile = tile_um / known.mpp if tile_um and known.mpp else None
        corners = None if middles is None or tile is None else middles - tile / 2
        extractor = config.get("extractor")
        named = extractor.get("class") if isinstance(extractor, Mapping) else extractor
        return OpenedBag(
            StoredFeatures(path, shape, torch_array),
            self.name,
            stat_digest(path, _index(path)),
            corners,
            "" if corners is not None else _missing(middles, tile_um),
            encoder=text(named),
            mpp=known.mpp,
            tile_px_level0=tile,
        )


def _index(path: Path) -> Path:
    """The archive; where there is none, the plain array that slideflow writes if told to."""
    archive = path.with_name(f"{path.stem}.index.npz")
    return archive if archive.is_file() else archive.with_suffix(".npy")


def _config(path: Path) -> Path:
    return path.with_name("bags_config.json")


def _middles(path: Path) -> FloatArray | None:
    index = _index(path)
    if not index.is_file():
        return None
    middles = numpy_array(index, "arr_0" if index.suffix == ".npz" else None)
    return middles.reshape(-1, 2).astype(np.float64)


def _settings(path: Path) -> Mapping[str, Any]:
    try:
        settings = json.loads(_config(path).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return settings if isinstance(settings, dict) else {}


def _missing(middles: FloatArray | None, tile_um: float | None) -> str:
    if middles is None:
        return "There is no index of places beside it."
    if tile_um is None:
        return "Its places are middles of tiles, and no bags_config.json tells the tiles' size."
    return (
        "Its places are middles of tiles of known micrometres, and the slide's resolution is "
        "not known."
    )


FILE = "features.npy"
_PLACES = 3


@dataclass(frozen=True)
class Owkin(AbstractLayout):
    """Owkin (HistoSSLscaling): the folder of a slide, or `features.npy` in it.

    Three columns of places stand before the features: level, column and row in a deep zoom
    pyramid, which halves the slide until it is one pixel and counts levels from there. So
    pixels of level 0 need the size of the slide.
    """

    name = "Owkin"

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
            StoredFeatures(file, (tiles, columns - _PLACES), numpy_array, _PLACES),
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


TABLE = "tiling_coordinates_camelyon16.csv"
_SIDE = 2 * 224.0


@dataclass(frozen=True)
class Flamby(AbstractLayout):
    """FLamby (Fed-Camelyon16): `SLIDE.tif.npy`, or any array of numpy's that is not Owkin's.

    It holds features alone; one table has all places. That table,
    `tiling_coordinates_camelyon16.csv`, has the columns slide_name (in small letters), coords_x
    and coords_y: upper left corners in pixels of level 0. It comes with FLamby's program, and
    is put beside the features. Tiles are 224 pixels wide at level 1, which is half of level 0.
    """

    name = "FLamby"

    def fits(self, path: Path) -> bool:
        return path.is_file() and path.suffix == ".npy" and path.name != FILE

    def open(self, path: Path, known: KnownSlide) -> OpenedBag:
        shape = table_shape(path, numpy_array(path).shape)
        table = path.with_name(TABLE)
        coords = _places(table).get(path.name.removesuffix(".npy").lower())
        check_places(path, shape[0], coords)
        return OpenedBag(
            StoredFeatures(path, shape, numpy_array),
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
    corners: dict[str, list[tuple[float, float]]] = {}
    try:
        for row in read_rows(table, columns):
            name, x, y = (row[column] for column in columns)
            corners.setdefault(name.lower(), []).append((float(x), float(y)))
    except (CohortError, ValueError):
        raise unusable(table, f"It needs the columns {', '.join(columns)}.") from None
    return {name: np.array(places) for name, places in corners.items()}
