"""Read tile features from files of HDF5, numpy or torch; nothing in them is executed.

`OpenedBag` is what is known of a slide's features, whichever laboratory's layout they are in.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from zipfile import ZipFile, is_zipfile

import numpy as np
import numpy.lib.format as npy
from numpy.typing import NDArray

from fedcox.errors import SlideError, from_extra
from fedcox.files.reading import too_large_fault
from fedcox.survival.bags import SlideFeatures, TileFeatures
from fedcox.survival.cohort import FloatArray

#: Half floats end at 65,504.
LARGEST_FEATURE = 6e4
SUFFIXES = (".h5", ".hdf5")


@dataclass(frozen=True)
class KnownSlide:
    """What some layouts leave to the slide itself.

    `mpp` is the resolution of level 0 in micrometres per pixel and `size` its width and height
    in pixels. `deepzoom_tile_px` is the size of tiles that are named by their place in a deep
    zoom pyramid, which their file does not tell: 224 for most encoders, 256 for some.
    """

    mpp: float | None = None
    size: tuple[int, int] | None = None
    deepzoom_tile_px: int | None = None


@dataclass(frozen=True, eq=False)
class OpenedBag:
    """One slide's features, read when they are needed, and all that is known about them.

    `coords` (tiles, 2) are upper left corners in pixels of level 0. Where there are none,
    `no_coords` says why. `mpp` is the slide's resolution at level 0, `tile_px_level0` the side
    of a tile in its pixels. None is what the file does not tell. `reducer_sha256` is empty for
    features as an encoder gave them. `tissue_tiles` counts the slide's tiles with tissue, of
    which these may have been drawn. `digest` changes with the file's content.
    """

    features: SlideFeatures
    layout: str
    digest: str
    coords: FloatArray | None = None
    no_coords: str = ""
    encoder: str | None = None
    encoder_sha256: str | None = None
    reducer_sha256: str = ""
    mpp: float | None = None
    tile_px_level0: float | None = None
    tissue_tiles: int | None = None


class AbstractLayout(ABC):
    """How one laboratory writes features."""

    #: As it is called in messages.
    name: str

    @abstractmethod
    def fits(self, path: Path) -> bool:
        """Whether the file, or the folder, is in this layout. It exists."""

    @abstractmethod
    def open(self, path: Path, known: KnownSlide) -> OpenedBag:
        """The bag; SlideError where it cannot be used."""


def too_large(bad: int, tiles: int) -> str:
    """What to say where features overflow half floats."""
    return (
        f"{bad} of {tiles} tiles have features above {LARGEST_FEATURE:g} in size, more than a "
        "half float holds. Use an encoder whose features are scaled."
    )


def unusable(path: Path, *faults: str) -> SlideError:
    """What to say about a file of features."""
    return SlideError(f"Cannot use the features in {path.name}.", faults)


@contextmanager
def opened_hdf5(path: Path) -> Iterator[Any]:
    """An HDF5 file for reading; SlideError where it is none, or cut off."""
    with from_extra("h5py", "slides"):
        import h5py
    try:
        file = h5py.File(path, "r")
    except OSError as error:
        raise unusable(path, f"It is no whole HDF5 file: {error}.") from None
    with file:
        try:
            yield file
        except (OSError, RuntimeError, KeyError, ValueError, TypeError) as error:
            # What a damaged file raises depends on where the damage is.
            raise unusable(path, f"It cannot be read to its end: {error}.") from None


def hdf5_array(path: Path, file: Any, name: str) -> Any:
    """The dataset of this name, not read yet; SlideError where it is none, or too large."""
    import h5py

    dataset = file[name]
    if not isinstance(dataset, h5py.Dataset) or dataset.shape is None:
        kind = type(dataset).__name__.lower()
        raise unusable(path, f"'{name}' is an HDF5 {kind} without an array; one is needed.")
    check_declared(path, dataset.size * dataset.dtype.itemsize)
    return dataset


def check_declared(path: Path, size: int) -> None:
    """SlideError where so many bytes are more than the machine can hold."""
    fault = too_large_fault(size)
    if fault is not None:
        raise unusable(path, fault)


def table_shape(path: Path, shape: tuple[int, ...]) -> tuple[int, int]:
    """(tiles, features) of an array with at least one of each.

    An array of one bag in front, (1, tiles, features), counts as the bag.
    """
    table = shape[1:] if len(shape) == 3 and shape[0] == 1 else shape
    if len(table) != 2:
        raise unusable(path, f"Features have the shape {shape}; (tiles, features) is needed.")
    tiles, features = table
    if not tiles:
        raise unusable(path, "There is no tile in it.")
    if not features:
        raise unusable(path, "Tiles have no features.")
    return int(tiles), int(features)


def checked_features(array: NDArray[Any], path: Path) -> TileFeatures:
    """Features as half or single floats, all of them finite and such as a half float holds.

    Others would decide alone about a reducer that is fitted on all slides' tiles.
    """
    if not np.issubdtype(array.dtype, np.floating):
        raise unusable(path, f"Features are of type {array.dtype}; numbers are needed.")
    with np.errstate(over="ignore", invalid="ignore"):
        features = array if array.dtype == np.float16 else array.astype(np.float32, copy=False)
        # One sum is far quicker than a look at each number, and not finite just when one is
        # not: sums of finite features stay below 1e30.
        sound = bool(np.isfinite(features.sum(dtype=np.float32)))
        if not sound:
            bad = int(np.count_nonzero(~np.isfinite(features).all(axis=1)))
            if bad:
                raise unusable(
                    path,
                    f"{bad} of {len(features)} tiles have features that are not finite. Embed "
                    "the slide anew.",
                )
    if features.dtype != np.float16 and max(features.max(), -features.min()) > LARGEST_FEATURE:
        large = int(np.count_nonzero((np.abs(features) > LARGEST_FEATURE).any(axis=1)))
        raise unusable(path, too_large(large, len(features)))
    return np.ascontiguousarray(features)


@dataclass(frozen=True)
class StoredFeatures:
    """Features in a file: what `array` reads there, from column `first` on."""

    path: Path
    shape: tuple[int, int]
    array: Callable[[Path], NDArray[Any]]
    first: int = 0

    def read(self) -> TileFeatures:
        tiles, features = self.shape
        whole = self.array(self.path).reshape(tiles, self.first + features)
        return checked_features(whole[:, self.first :], self.path)


def hdf5_features(path: Path, shape: tuple[int, int], name: str) -> StoredFeatures:
    """Those in the dataset of this name."""
    return StoredFeatures(path, shape, partial(_hdf5_whole, name=name))


def _hdf5_whole(path: Path, name: str) -> NDArray[Any]:
    with opened_hdf5(path) as file:
        return np.asarray(hdf5_array(path, file, name)[()])


def numpy_array(path: Path, name: str | None = None) -> NDArray[Any]:
    """An array that numpy saved; `name` is its name in an archive of several."""
    try:
        if name is not None:
            _check_archived(path, f"{name}.npy")
        loaded = np.load(path, mmap_mode=None if name else "r", allow_pickle=False)
        return np.asarray(loaded if name is None else loaded[name])
    except SlideError:
        raise
    except KeyError:
        raise unusable(path, f"There is no array '{name}' in it.") from None
    except Exception as error:  # numpy and its archives raise many kinds
        raise unusable(path, f"It is no whole array of numpy's: {error}.") from None


def _check_archived(path: Path, entry: str) -> None:
    """An archive's array is no larger than the archive says, and that is not too large."""
    headers = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
    with ZipFile(path) as archive, archive.open(entry) as file:
        size = archive.getinfo(entry).file_size
        check_declared(path, size)
        read_header = headers.get(npy.read_magic(file))
        if read_header is None:
            raise unusable(path, "Its arrays are of a format that is not read.")
        shape, _, dtype = read_header(file)
    if math.prod(shape) * dtype.itemsize > size:
        raise unusable(path, "It is cut off: an array has more numbers than the file.")


def torch_array(path: Path) -> NDArray[Any]:
    """The one tensor in a file of torch's; a file that holds anything else is not read."""
    with from_extra("torch", "slides"):
        import torch
    try:
        check_declared(path, _unpacked(path))
        tensor = torch.load(path, map_location="cpu", weights_only=True)
    except SlideError:
        raise
    except Exception as error:  # torch raises many kinds, among them pickle's own
        kind = type(error).__name__
        raise unusable(path, f"It is no file of torch's with tensors alone ({kind}).") from None
    if not isinstance(tensor, torch.Tensor) or tensor.layout != torch.strided:  # sparse
        raise unusable(path, f"It holds a {type(tensor).__name__}; one tensor is needed.")
    # A tensor of any size may stand on a single number.
    check_declared(path, tensor.numel() * tensor.element_size())
    dense = tensor.float() if tensor.dtype == torch.bfloat16 else tensor
    return np.asarray(dense.detach().numpy())


def _unpacked(path: Path) -> int:
    """Bytes that the parts of an archive have, once they are unpacked."""
    if not is_zipfile(path):
        return path.stat().st_size
    with ZipFile(path) as archive:
        return sum(part.file_size for part in archive.infolist())


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

    def attribute(self, name: str) -> Any:
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
    words = value.decode(errors="replace") if isinstance(value, bytes) else str(value)
    return words.strip() or None


def number(value: Any) -> float | None:
    """An attribute as a positive number; of several the first; None where it is none."""
    try:
        first = float(np.ravel(value)[0])
    except (TypeError, ValueError, IndexError):
        return None
    return first if np.isfinite(first) and first > 0 else None


def stat_digest(*paths: Path) -> str:
    """What tells a file from a later one of its name without reading it."""
    facts = [path.stat() for path in paths if path.exists()]
    return " ".join(f"{fact.st_size}:{fact.st_mtime_ns}" for fact in facts)
