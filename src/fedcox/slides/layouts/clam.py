"""CLAM: HDF5 files with `features` and `coords`, and tensors of torch's beside them.

Places are upper left corners in pixels of level 0. The encoder is not named, nor is the size of
tiles: that is told by the file in `patches`, which the features were made from.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedcox.errors import SlideError
from fedcox.slides.feature_files import Hdf5Features, TorchFeatures, table_shape, torch_array
from fedcox.slides.layouts.hdf5_bag import (
    Hdf5Bag,
    bag_shape,
    check_places,
    is_hdf5,
    number,
    read_hdf5,
    stat_digest,
)
from fedcox.slides.opened_bag import AbstractLayout, KnownSlide, OpenedBag
from fedcox.survival.cohort import FloatArray


@dataclass(frozen=True)
class Clam(AbstractLayout):
    """`h5_files/SLIDE.h5`, or `pt_files/SLIDE.pt` whose places are in the former."""

    @property
    def name(self) -> str:
        return "CLAM"

    def fits(self, path: Path) -> bool:
        if path.suffix == ".pt":
            return path.is_file()
        return is_hdf5(path) and "features" in read_hdf5(path, "features").shapes

    def open(self, path: Path, known: KnownSlide) -> OpenedBag:
        return self._tensor(path, known) if path.suffix == ".pt" else self._hdf5(path, known)

    def _hdf5(self, path: Path, known: KnownSlide) -> OpenedBag:
        bag = read_hdf5(path, "features")
        shape = bag_shape(path, bag, "features")
        return OpenedBag(
            Hdf5Features(path, "features", shape),
            self.name,
            stat_digest(path),
            bag.coords,
            "" if bag.coords is not None else "The file has no coords.",
            mpp=known.mpp,
            tile_px_level0=_side(path, bag),
        )

    def _tensor(self, path: Path, known: KnownSlide) -> OpenedBag:
        shape = table_shape(path, torch_array(path).shape)
        beside = path.parent.parent / "h5_files" / f"{path.stem}.h5"
        bag = _beside(beside)
        coords = None if bag is None else bag.coords
        check_places(path, shape[0], coords)
        return OpenedBag(
            TorchFeatures(path, shape),
            self.name,
            stat_digest(path, beside),
            coords,
            "" if coords is not None else "There is no file of its name in h5_files beside it.",
            mpp=known.mpp,
            tile_px_level0=None if bag is None else _side(beside, bag),
        )


def _beside(path: Path) -> Hdf5Bag | None:
    try:
        return read_hdf5(path, "features") if path.is_file() else None
    except SlideError:
        return None  # the tensor holds the features; only places are lost


def _side(path: Path, bag: Hdf5Bag) -> float | None:
    """Of a tile at level 0, as the places' own file tells it, or by the tiles' distance."""
    patches = _beside(path.parent.parent / "patches" / path.name)
    told = patch_px(bag) or (None if patches is None else patch_px(patches))
    return told or usual_step(bag.coords)


def usual_step(coords: FloatArray | None) -> float | None:
    """How far a tile lies from the one before it, most often; None where that is not clear.

    Tiles are written column by column, and side by side unless somebody asks otherwise.
    """
    if coords is None or len(coords) < 2:
        return None
    steps = np.diff(coords, axis=0)
    along = steps[(steps == 0).any(axis=1) & (steps > 0).any(axis=1)].max(axis=1)
    sizes, counts = np.unique(along, return_counts=True)
    if not counts.size or 2 * counts.max() < len(along):
        return None
    return float(sizes[counts.argmax()])


def patch_px(bag: Hdf5Bag) -> float | None:
    """The side of a tile at level 0, where it can be told."""
    told = number(bag.told("patch_size_level0"))
    if told is not None:
        return told
    size, downsample = number(bag.told("patch_size")), number(bag.told("downsample"))
    if size is None:
        return None
    at_level_0 = np.ravel(bag.told("patch_level"))[:1].tolist() == [0]
    if downsample is not None:
        return size * downsample
    return size if at_level_0 else None
