"""slideflow: `SLIDE.pt`, a tensor of torch's, and `SLIDE.index.npz` or `.npy` with the places.

Places are the middles of tiles in pixels of level 0. The tile's size in micrometres and the
encoder are in `bags_config.json` of the folder.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedcox.slides.feature_files import TorchFeatures, numpy_array, table_shape, torch_array
from fedcox.slides.layouts.hdf5_bag import check_places, number, stat_digest, text
from fedcox.slides.opened_bag import AbstractLayout, KnownSlide, OpenedBag
from fedcox.survival.cohort import FloatArray


@dataclass(frozen=True)
class Slideflow(AbstractLayout):
    """Told from CLAM's tensors by what lies beside them."""

    @property
    def name(self) -> str:
        return "slideflow"

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
            TorchFeatures(path, shape),
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
    found = numpy_array(index, "arr_0" if index.suffix == ".npz" else None)
    return found.reshape(-1, 2).astype(np.float64)


def _settings(path: Path) -> Mapping[str, Any]:
    try:
        found = json.loads(_config(path).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _missing(middles: FloatArray | None, tile_um: float | None) -> str:
    if middles is None:
        return "There is no index of places beside it."
    if tile_um is None:
        return "Its places are middles of tiles, and no bags_config.json tells the tiles' size."
    return (
        "Its places are middles of tiles of known micrometres, and the slide's resolution is "
        "not known."
    )
