"""Our own files, as `bag_file.py` writes them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedcox.slides.bag_file import SCHEMA, read_bag
from fedcox.slides.feature_files import opened_hdf5
from fedcox.slides.layouts.hdf5_bag import is_hdf5
from fedcox.slides.opened_bag import AbstractLayout, KnownSlide, OpenedBag


@dataclass(frozen=True)
class Own(AbstractLayout):
    """`SLIDE.h5` with a schema."""

    @property
    def name(self) -> str:
        return "fedcox"

    def fits(self, path: Path) -> bool:
        if not is_hdf5(path):
            return False
        with opened_hdf5(path) as file:
            return bool(file.attrs.get("schema") == SCHEMA)

    def open(self, path: Path, known: KnownSlide) -> OpenedBag:
        bag = read_bag(path)
        facts = bag.facts
        coords = None if bag.coords is None else bag.coords.astype(np.float64)
        return OpenedBag(
            bag,
            self.name,
            bag.digest,
            coords,
            "" if coords is not None else "The features it was made of had no places.",
            encoder=facts.encoder or None,
            encoder_sha256=facts.encoder_sha256 or None,
            reducer_sha256=facts.reducer_sha256,
            mpp=facts.mpp or known.mpp,
            tile_px_level0=facts.tile_px_level0,
            tissue_tiles=facts.n_tissue_tiles,
        )
