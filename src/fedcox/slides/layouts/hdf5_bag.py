"""What HDF5 files of features have in common, whoever wrote them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedcox.slides.feature_files import hdf5_array, opened_hdf5, table_shape, unusable
from fedcox.survival.cohort import FloatArray

SUFFIXES = (".h5", ".hdf5")


@dataclass(frozen=True, eq=False)
class Hdf5Bag:
    """`coords`, and attributes of the file, of `coords` and of the features.

    `shapes` are those of `coords` and of the features, as far as they are there.
    """

    shapes: Mapping[str, tuple[int, ...]]
    coords: FloatArray | None
    of_file: Mapping[str, Any]
    of_coords: Mapping[str, Any]
    of_features: Mapping[str, Any]

    def told(self, name: str) -> Any:
        """An attribute, wherever it is; None where it is nowhere."""
        for attributes in (self.of_file, self.of_coords, self.of_features):
            if name in attributes:
                return attributes[name]
        return None


def is_hdf5(path: Path) -> bool:
    """By its name."""
    return path.is_file() and path.suffix.lower() in SUFFIXES


def read_hdf5(path: Path, features: str) -> Hdf5Bag:
    """All of a file but its features, which are in the dataset of this name."""
    with opened_hdf5(path) as file:
        datasets = {
            name: hdf5_array(path, file, name) for name in ("coords", features) if name in file
        }
        places = datasets.get("coords")
        coords = None if places is None else np.asarray(places[()]).reshape(-1, 2)
        return Hdf5Bag(
            {name: tuple(dataset.shape) for name, dataset in datasets.items()},
            None if coords is None else coords.astype(np.float64),
            *(
                dict(told.attrs) if told is not None else {}
                for told in (file, places, datasets.get(features))
            ),
        )


def bag_shape(path: Path, bag: Hdf5Bag, features: str) -> tuple[int, int]:
    """(tiles, features), as many tiles as there are places."""
    shape = table_shape(path, bag.shapes[features])
    check_places(path, shape[0], bag.coords)
    return shape


def check_places(path: Path, tiles: int, coords: FloatArray | None) -> None:
    """SlideError where places and features are not of the same tiles."""
    if coords is not None and len(coords) != tiles:
        raise unusable(
            path, f"There are {tiles} tiles with features and {len(coords)} with a place."
        )


def text(value: Any) -> str | None:
    """An attribute as text; None where it is empty or not there."""
    if value is None:
        return None
    found = value.decode(errors="replace") if isinstance(value, bytes) else str(value)
    return found.strip() or None


def number(value: Any) -> float | None:
    """An attribute as a positive number; of several the first; None where it is none."""
    try:
        found = float(np.ravel(value)[0])
    except (TypeError, ValueError, IndexError):
        return None
    return found if np.isfinite(found) and found > 0 else None


def stat_digest(*paths: Path) -> str:
    """What tells a file from a later one of its name without reading it."""
    facts = [path.stat() for path in paths if path.exists()]
    return " ".join(f"{fact.st_size}:{fact.st_mtime_ns}" for fact in facts)
