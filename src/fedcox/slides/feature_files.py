"""Read tile features from files of HDF5, numpy or torch; nothing in them is executed."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import ZipFile, is_zipfile

import numpy as np
import numpy.lib.format as npy
from numpy.typing import NDArray

from fedcox.errors import SlideError, needs_extra
from fedcox.files.reading import too_large_fault
from fedcox.survival.bags import TileFeatures

#: Half floats end at 65,504.
LARGEST_FEATURE = 6e4


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
    try:
        import h5py
    except ImportError:
        raise needs_extra("h5py", "slides") from None
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

    found = file[name]
    if not isinstance(found, h5py.Dataset) or found.shape is None:
        kind = type(found).__name__.lower()
        raise unusable(path, f"'{name}' is an HDF5 {kind} without an array; one is needed.")
    check_declared(path, found.size * found.dtype.itemsize)
    return found


def check_declared(path: Path, size: int) -> None:
    """SlideError where so many bytes are more than the machine can hold."""
    fault = too_large_fault(size)
    if fault is not None:
        raise unusable(path, fault)


def table_shape(path: Path, shape: tuple[int, ...]) -> tuple[int, int]:
    """(tiles, features) of an array with at least one of each.

    An array of one bag in front, (1, tiles, features), counts as the bag.
    """
    found = shape[1:] if len(shape) == 3 and shape[0] == 1 else shape
    if len(found) != 2:
        raise unusable(path, f"Features have the shape {shape}; (tiles, features) is needed.")
    tiles, features = found
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
        found = array if array.dtype == np.float16 else array.astype(np.float32, copy=False)
        # One sum is far quicker than a look at each number, and not finite just when one is
        # not: sums of finite features stay below 1e30.
        sound = bool(np.isfinite(found.sum(dtype=np.float32)))
        if not sound:
            bad = int(np.count_nonzero(~np.isfinite(found).all(axis=1)))
            if bad:
                raise unusable(
                    path,
                    f"{bad} of {len(found)} tiles have features that are not finite. Embed "
                    "the slide anew.",
                )
    if found.dtype != np.float16 and max(found.max(), -found.min()) > LARGEST_FEATURE:
        large = int(np.count_nonzero((np.abs(found) > LARGEST_FEATURE).any(axis=1)))
        raise unusable(path, too_large(large, len(found)))
    return np.ascontiguousarray(found)


@dataclass(frozen=True)
class Hdf5Features:
    """A dataset of an HDF5 file."""

    path: Path
    dataset: str
    shape: tuple[int, int]

    def read(self) -> TileFeatures:
        with opened_hdf5(self.path) as file:
            array = hdf5_array(self.path, file, self.dataset)[()]
        return checked_features(np.asarray(array).reshape(self.shape), self.path)


@dataclass(frozen=True)
class NumpyFeatures:
    """An array of numpy's, from column `first` on."""

    path: Path
    shape: tuple[int, int]
    first: int = 0

    def read(self) -> TileFeatures:
        return checked_features(numpy_array(self.path)[:, self.first :], self.path)


@dataclass(frozen=True)
class TorchFeatures:
    """A tensor of torch's."""

    path: Path
    shape: tuple[int, int]

    def read(self) -> TileFeatures:
        return checked_features(torch_array(self.path).reshape(self.shape), self.path)


def numpy_array(path: Path, name: str | None = None) -> NDArray[Any]:
    """An array that numpy saved; `name` is its name in an archive of several."""
    try:
        if name is not None:
            _check_archived(path, f"{name}.npy")
        found = np.load(path, mmap_mode=None if name else "r", allow_pickle=False)
        return np.asarray(found if name is None else found[name])
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
    try:
        import torch
    except ImportError:
        raise needs_extra("torch", "slides") from None
    try:
        check_declared(path, _unpacked(path))
        found = torch.load(path, map_location="cpu", weights_only=True)
    except SlideError:
        raise
    except Exception as error:  # torch raises many kinds, among them pickle's own
        kind = type(error).__name__
        raise unusable(path, f"It is no file of torch's with tensors alone ({kind}).") from None
    if not isinstance(found, torch.Tensor) or found.layout != torch.strided:  # sparse
        raise unusable(path, f"It holds a {type(found).__name__}; one tensor is needed.")
    # A tensor of any size may stand on a single number.
    check_declared(path, found.numel() * found.element_size())
    dense = found.float() if found.dtype == torch.bfloat16 else found
    return np.asarray(dense.detach().numpy())


def _unpacked(path: Path) -> int:
    """Bytes that the parts of an archive have, once they are unpacked."""
    if not is_zipfile(path):
        return path.stat().st_size
    with ZipFile(path) as archive:
        return sum(part.file_size for part in archive.infolist())
