"""Features written as other laboratories' programs write them, byte for byte by their formats.

All hold the same invented tiles. Only the formats are known here, none of the programs.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Level 0 of the invented slide: width, height, and micrometres per pixel.
SIZE, MPP = (20_000, 15_000), 0.25
#: Tiles of 224 pixels at 0.5 micrometres: 448 at level 0, which is one deep zoom level down.
TILE_PX, TILE_UM, TILE_LEVEL0 = 224, 112.0, 448.0


@dataclass(frozen=True, eq=False)
class Tiles:
    """Invented tiles on the grid of the slide: columns and rows of it, and their features."""

    places: NDArray[np.int64]
    features: NDArray[np.float32]

    @property
    def coords(self) -> NDArray[np.int64]:
        """Upper left corners at level 0."""
        return self.places * int(TILE_LEVEL0)


def invented_tiles(tiles: int = 37, features: int = 16, seed: int = 0) -> Tiles:
    """Features that half floats hold exactly, so that every layout has the same."""
    rng = np.random.default_rng(seed)
    cells = rng.choice(44 * 33, tiles, replace=False)
    values = rng.normal(0.3, 1.0, (tiles, features)).astype(np.float16)
    return Tiles(np.stack([cells % 44, cells // 44], axis=1), values.astype(np.float32))


def write_clam(folder: Path, name: str, tiles: Tiles) -> Path:
    """`h5_files/SLIDE.h5` of bare numbers, and `patches/SLIDE.h5`, which tells of the tiles."""
    import h5py

    path = folder / "h5_files" / f"{name}.h5"
    patches = folder / "patches" / f"{name}.h5"
    for place in (path, patches):
        place.parent.mkdir(parents=True, exist_ok=True)
    with h5py.File(path, "w") as file:
        shape = tiles.features.shape
        file.create_dataset("features", data=tiles.features, chunks=(1, shape[1]))
        file.create_dataset("coords", data=tiles.coords.astype(np.int32), chunks=(1, 2))
    with h5py.File(patches, "w") as file:
        coords = file.create_dataset("coords", data=tiles.coords, chunks=(1, 2))
        coords.attrs.update(
            patch_size=TILE_PX,
            patch_level=1,
            downsample=np.array([2.0, 2.0]),
            downsampled_level_dim=np.array(SIZE) // 2,
            level_dim=np.array(SIZE) // 2,
            name=name,
            save_path=str(patches.parent),
        )
    return path


def write_clam_tensor(folder: Path, name: str, tiles: Tiles) -> Path:
    """`pt_files/SLIDE.pt`, beside the HDF5 file."""
    import torch

    write_clam(folder, name, tiles)
    path = folder / "pt_files" / f"{name}.pt"
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save(torch.from_numpy(tiles.features), path)
    return path


def write_trident(folder: Path, name: str, tiles: Tiles) -> Path:
    """`SLIDE.h5`; what is known is in the attributes of the datasets."""
    import h5py

    path = folder / f"{name}.h5"
    with h5py.File(path, "w") as file:
        features = file.create_dataset("features", data=tiles.features)
        features.attrs.update(encoder="uni_v1", name=name, savetodir=str(folder))
        coords = file.create_dataset("coords", data=tiles.coords)
        coords.attrs.update(
            patch_size=TILE_PX,
            patch_size_level0=int(TILE_LEVEL0),
            level0_magnification=40,
            target_magnification=20,
            overlap=0,
            name=name,
            savetodir=str(folder),
            level0_width=SIZE[0],
            level0_height=SIZE[1],
        )
    return path


def write_stamp(folder: Path, name: str, tiles: Tiles) -> Path:
    """`SLIDE.h5`; half floats, and places in micrometres."""
    import h5py

    path = folder / f"{name}.h5"
    with h5py.File(path, "w") as file:
        file["coords"] = (tiles.coords * MPP).astype(np.float32)
        file["feats"] = tiles.features.astype(np.float16)
        file.attrs.update(
            stamp_version="2.5.0",
            extractor="uni_v1",
            unit="um",
            tile_size_um=TILE_UM,
            tile_size_px=TILE_PX,
            code_hash="0" * 64,
            feat_type="tile",
        )
    return path


def write_slideflow(folder: Path, name: str, tiles: Tiles) -> Path:
    """`SLIDE.pt`, `SLIDE.index.npz` with the middles of tiles, and `bags_config.json`."""
    import torch

    path = folder / f"{name}.pt"
    torch.save(torch.from_numpy(tiles.features), path)
    middles = tiles.coords + int(TILE_LEVEL0) // 2
    np.savez(folder / f"{name}.index.npz", middles)
    config = {
        "extractor": {"class": "slideflow.model.extractors.uni.UNIFeatures", "kwargs": {}},
        "normalizer": None,
        "num_features": tiles.features.shape[1],
        "tile_px": TILE_PX,
        "tile_um": TILE_UM,
    }
    (folder / "bags_config.json").write_text(json.dumps(config), encoding="utf-8")
    return path


def write_owkin(folder: Path, name: str, tiles: Tiles) -> Path:
    """`SLIDE.svs/features.npy`: deep zoom level, column and row, then the features."""
    path = folder / f"{name}.svs" / "features.npy"
    path.parent.mkdir(parents=True)
    # 20,000 pixels are level 15 of a deep zoom pyramid; half of them are level 14.
    level = np.full((len(tiles.places), 1), 14)
    np.save(path, np.hstack([level, tiles.places, tiles.features]).astype(np.float32))
    return path


def write_flamby(folder: Path, name: str, tiles: Tiles) -> Path:
    """`SLIDE.tif.npy`, and one table of places for the whole folder."""
    path = folder / f"{name}.tif.npy"
    np.save(path, tiles.features)
    table = folder / "tiling_coordinates_camelyon16.csv"
    if not table.exists():
        table.write_text("slide_name,coords_x,coords_y\n", encoding="utf-8")
    with table.open("a", encoding="utf-8") as file:
        for x, y in tiles.coords:
            file.write(f"{name.lower()}.tif,{float(x)},{float(y)}\n")
    return path


WRITERS: dict[str, Callable[[Path, str, Tiles], Path]] = {
    "CLAM": write_clam,
    "CLAM, tensors": write_clam_tensor,
    "TRIDENT": write_trident,
    "STAMP": write_stamp,
    "slideflow": write_slideflow,
    "Owkin": write_owkin,
    "FLamby": write_flamby,
}


def overwritten(path: Path, **datasets: Any) -> None:
    """Put other datasets into an HDF5 file."""
    import h5py

    with h5py.File(path, "a") as file:
        for name, value in datasets.items():
            del file[name]
            file[name] = value
