"""TRIDENT: HDF5 files with `features` and `coords`, whose attributes name the encoder.

Places are upper left corners in pixels of level 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fedcox.slides.feature_files import Hdf5Features
from fedcox.slides.layouts.clam import patch_px
from fedcox.slides.layouts.hdf5_bag import (
    bag_shape,
    is_hdf5,
    number,
    read_hdf5,
    stat_digest,
    text,
)
from fedcox.slides.opened_bag import AbstractLayout, KnownSlide, OpenedBag

#: Attributes that TRIDENT writes and CLAM does not.
_MARKS = ("encoder", "overlap", "target_magnification", "level0_magnification")


@dataclass(frozen=True)
class Trident(AbstractLayout):
    """`features_ENCODER/SLIDE.h5`."""

    @property
    def name(self) -> str:
        return "TRIDENT"

    def fits(self, path: Path) -> bool:
        if not is_hdf5(path):
            return False
        bag = read_hdf5(path, "features")
        return "features" in bag.shapes and any(bag.told(mark) is not None for mark in _MARKS)

    def open(self, path: Path, known: KnownSlide) -> OpenedBag:
        bag = read_hdf5(path, "features")
        shape = bag_shape(path, bag, "features")
        return OpenedBag(
            Hdf5Features(path, "features", shape),
            self.name,
            stat_digest(path),
            bag.coords,
            "" if bag.coords is not None else "The file has no coords.",
            encoder=text(bag.told("encoder")),
            mpp=number(bag.told("mpp")) or known.mpp,
            tile_px_level0=patch_px(bag),
        )
