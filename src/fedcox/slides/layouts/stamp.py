"""STAMP: HDF5 files with `feats` and `coords`, places in micrometres.

They become pixels by the slide's own resolution, which the file does not hold: its
`tile_size_um` and `tile_size_px` are those of the tiles that the encoder saw.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fedcox.slides.feature_files import Hdf5Features
from fedcox.slides.layouts.hdf5_bag import (
    Hdf5Bag,
    bag_shape,
    is_hdf5,
    number,
    read_hdf5,
    stat_digest,
    text,
)
from fedcox.slides.opened_bag import AbstractLayout, KnownSlide, OpenedBag


@dataclass(frozen=True)
class Stamp(AbstractLayout):
    """`SLIDE.h5`."""

    @property
    def name(self) -> str:
        return "STAMP"

    def fits(self, path: Path) -> bool:
        return is_hdf5(path) and "feats" in read_hdf5(path, "feats").shapes

    def open(self, path: Path, known: KnownSlide) -> OpenedBag:
        bag = read_hdf5(path, "feats")
        shape = bag_shape(path, bag, "feats")
        missing = _missing(bag, known)
        # Until version 2 the size had no unit in its name.
        tile_um = number(bag.told("tile_size_um")) or number(bag.told("tile_size"))
        pixels = None
        if bag.coords is not None and known.mpp is not None and not missing:
            pixels = bag.coords / known.mpp
        return OpenedBag(
            Hdf5Features(path, "feats", shape),
            self.name,
            stat_digest(path),
            pixels,
            missing,
            encoder=text(bag.told("extractor")),
            mpp=known.mpp,
            tile_px_level0=tile_um / known.mpp if tile_um and known.mpp else None,
        )


def _missing(bag: Hdf5Bag, known: KnownSlide) -> str:
    """Why there are no places in pixels; nothing where there are."""
    if bag.coords is None:
        return "The file has no coords."
    unit = text(bag.told("unit"))
    if unit != "um":
        return f"The unit of its coords is {unit or 'not told'}; um is needed."
    if known.mpp is None:
        return "Its coords are micrometres, and the slide's resolution is not known."
    return ""
