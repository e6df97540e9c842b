"""How does a slide's bag of tiles lie on the disk? One HDF5 file, by the names of TRIDENT.

`coords` (tiles, 2) are upper left corners in pixels of level 0, `features` (tiles, features)
half floats without chunks, so that a bag is read in one piece. What the file depends on is in
its attributes; equal content gives equal bytes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args, get_type_hints

import numpy as np
from numpy.typing import NDArray

from fedcox.errors import SlideError, from_extra
from fedcox.files.writing import whole_file
from fedcox.slides.feature_files import (
    LARGEST_FEATURE,
    hdf5_array,
    hdf5_features,
    opened_hdf5,
    table_shape,
    too_large,
    unusable,
)
from fedcox.survival.bags import TileFeatures

SCHEMA = "fedcox-bag-1"
Stage: TypeAlias = Literal["tiles", "raw", "reduced"]
_STAGES = get_args(Stage)


@dataclass(frozen=True)
class BagFacts:
    """What is known about a slide's bag; None where the slide's source did not tell.

    `mpp` is the slide's resolution at level 0 (micrometres per pixel), `tile_px` the side of a
    tile as the encoder sees it, `tile_um` the same in micrometres and `tile_px_level0` in
    pixels of level 0. `settings` is what the file depends on, see `step.py`.
    """

    slide_id: str
    stage: Stage
    mpp: float | None = None
    tile_px: int | None = None
    tile_um: float | None = None
    tile_px_level0: float | None = None
    seed: int | None = None
    n_tissue_tiles: int | None = None
    encoder: str = ""
    encoder_sha256: str = ""
    reducer_sha256: str = ""
    settings: Mapping[str, str | int | float | None] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class BagFile:
    """A bag on the disk; features are read when asked for.

    Before the slide is embedded there are no features: its shape is (tiles, 0). `all_coords`
    are the places of all tiles with tissue, of which those of the bag were drawn; only files
    of the stage "tiles" have them.
    """

    path: Path
    facts: BagFacts
    shape: tuple[int, int]
    digest: str
    coords: NDArray[np.int32] | None
    all_coords: NDArray[np.int32] | None = None

    def read(self) -> TileFeatures:
        """(tiles, features)."""
        if not self.shape[1]:
            raise unusable(self.path, "It holds places of tiles, and no features. Embed first.")
        return hdf5_features(self.path, self.shape, "features").read()


def write_bag(
    path: str | Path,
    facts: BagFacts,
    coords: NDArray[Any] | None,
    features: NDArray[Any] | None = None,
    *,
    all_coords: NDArray[Any] | None = None,
) -> None:
    """Put the bag in its place whole; SlideError, with the slide's name, where it cannot be.

    `coords` (tiles, 2) and `features` (tiles, features) have the same order. `all_coords` is
    no part of the digest: features do not depend on it.
    """
    with from_extra("h5py", "slides"):
        import h5py
    faults = [*_coords_faults(coords, features), *_feature_faults(facts.stage, features)]
    if all_coords is not None:
        faults += _coords_faults(all_coords, None)
    if faults:
        raise SlideError(f"The tiles of slide '{facts.slide_id}' cannot be kept.", faults)
    places = None if coords is None else np.rint(coords).astype(np.int32)
    half = None if features is None else features.astype(np.float16)
    attributes = _attributes(facts)
    # In memory first: HDF5 cannot be left in an orderly way once a disk is full.
    content = BytesIO()
    # Bytes must not depend on which version of HDF5 writes them.
    with h5py.File(content, "w", libver=("earliest", "v110")) as file:
        file.attrs.update({**attributes, "digest": _digest(attributes, places, half)})
        if places is not None:
            dataset = file.create_dataset("coords", data=places)
            dataset.attrs.update(_patch_attributes(facts))
        if half is not None:
            file.create_dataset("features", data=half)
        if all_coords is not None:
            file.create_dataset("all_coords", data=np.rint(all_coords).astype(np.int32))
    with whole_file(path) as part:
        part.write_bytes(content.getbuffer())


def read_bag(path: str | Path) -> BagFile:
    """The bag at this place; SlideError where it is none of ours, or cut off."""
    place = Path(path)
    with opened_hdf5(place) as file:
        if file.attrs.get("schema") != SCHEMA:
            raise unusable(place, f"It is not of the schema {SCHEMA}.")
        facts = _facts(place, file.attrs)
        coords = _places(place, file, "coords")
        all_coords = _places(place, file, "all_coords")
        named = "features" in file
        features = hdf5_array(place, file, "features").shape if named else None
        digest = str(file.attrs.get("digest", ""))
    if features is not None:
        shape = table_shape(place, features)
    elif coords is not None and len(coords):
        shape = len(coords), 0
    else:
        raise unusable(place, "There is no tile in it.")
    if coords is not None and coords.shape != (shape[0], 2):
        raise unusable(
            place,
            f"There are {shape[0]} tiles with features and {len(coords)} with a place.",
        )
    return BagFile(place, facts, shape, digest, coords, all_coords)


def _places(path: Path, file: Any, name: str) -> NDArray[np.int32] | None:
    if name not in file:
        return None
    return np.asarray(hdf5_array(path, file, name)[()], dtype=np.int32)


def kept_settings(path: Path) -> Mapping[str, str | int | float | None] | None:
    """What a finished bag depends on; None where there is none that can be used."""
    try:
        return read_bag(path).facts.settings
    except SlideError:
        return None


def _coords_faults(coords: NDArray[Any] | None, features: NDArray[Any] | None) -> list[str]:
    if coords is None:
        return [] if features is not None else ["Places of tiles are needed."]
    if coords.ndim != 2 or coords.shape[1] != 2:
        return [f"Places have the shape {coords.shape}; (tiles, 2) is needed."]
    faults = []
    if not np.isfinite(coords).all() or np.abs(coords).max(initial=0) >= 2**31:
        faults.append("Places must be pixels of level 0.")
    if not len(coords):
        faults.append("There is no tile.")
    if features is not None and len(features) != len(coords):
        faults.append(f"{len(features)} tiles have features and {len(coords)} have a place.")
    return faults


def _feature_faults(stage: Stage, features: NDArray[Any] | None) -> list[str]:
    if features is None:
        return [] if stage == "tiles" else [f"Features are needed at the stage '{stage}'."]
    if features.ndim != 2 or not features.size:
        return [f"Features have the shape {features.shape}; (tiles, features) is needed."]
    finite = np.isfinite(features)
    if not finite.all():
        bad = int(np.count_nonzero(~finite.all(axis=1)))
        return [f"{bad} of {len(features)} tiles have features that are not finite."]
    if np.abs(features).max() > LARGEST_FEATURE:
        bad = int(np.count_nonzero((np.abs(features) > LARGEST_FEATURE).any(axis=1)))
        return [too_large(bad, len(features))]
    return []


def _attributes(facts: BagFacts) -> dict[str, str | int | float]:
    known = {
        part.name: getattr(facts, part.name)
        for part in fields(facts)
        if part.name != "settings"
    }
    present = {name: value for name, value in known.items() if value is not None}
    settings = json.dumps(dict(facts.settings), sort_keys=True)
    return {"schema": SCHEMA, **present, "settings": settings}


def _patch_attributes(facts: BagFacts) -> dict[str, int | float]:
    """What CLAM and TRIDENT look for beside the places."""
    attributes: dict[str, int | float] = {"patch_level": 0}
    if facts.tile_px is not None:
        attributes["patch_size"] = facts.tile_px
    if facts.tile_px_level0 is not None:
        attributes["patch_size_level0"] = facts.tile_px_level0
    return attributes


def _digest(
    attributes: Mapping[str, str | int | float],
    coords: NDArray[np.int32] | None,
    features: NDArray[np.float16] | None,
) -> str:
    hasher = sha256(json.dumps(dict(attributes), sort_keys=True).encode())
    for array in (coords, features):
        if array is not None:
            hasher.update(f"{array.dtype.str}{array.shape}".encode())
            hasher.update(np.ascontiguousarray(array).data)
    return hasher.hexdigest()


_KINDS: Mapping[str, type] = {
    name: (get_args(kind) or (kind,))[0]
    for name, kind in get_type_hints(BagFacts).items()
    if name not in ("stage", "settings")
}


def _facts(path: Path, attributes: Mapping[str, Any]) -> BagFacts:
    try:
        known = {
            name: kind(attributes[name]) for name, kind in _KINDS.items() if name in attributes
        }
        stage: Any = str(attributes["stage"])
        facts = BagFacts(stage=stage, settings=json.loads(attributes["settings"]), **known)
    except (KeyError, ValueError, TypeError, OverflowError):
        raise unusable(path, "Its attributes are not those of a bag.") from None
    if stage not in _STAGES:
        raise unusable(path, f"Its stage is '{stage}'; one of {', '.join(_STAGES)} is needed.")
    return facts
