"""Memory for tiles that several processes see, and that leaves nothing behind.

The memory has no name: it is gone with the last process that has it open, however that ended.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from dataclasses import dataclass
from math import prod
from multiprocessing import reduction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcox.errors import InputError


@dataclass(frozen=True)
class TileMemory:
    """`slots` batches of tiles: (slots, batch, tile_px, tile_px, 3) of 8-bit colours."""

    slots: int
    batch: int
    tile_px: int

    @property
    def shape(self) -> tuple[int, ...]:
        return self.slots, self.batch, self.tile_px, self.tile_px, 3


class SharedTiles:
    """Memory that a process made, and that it hands to processes as it starts them."""

    def __init__(self, layout: TileMemory) -> None:
        self._layout = layout
        self._handle = _nameless_file()
        try:
            os.ftruncate(self._handle, prod(layout.shape))
            self.tiles = _mapped(self._handle, layout)
        except OSError as error:
            os.close(self._handle)
            raise InputError(
                f"There is no memory for tiles on their way, {prod(layout.shape):,} bytes: "
                f"{error.strerror or error}.",
                ["Say a smaller --batch, or fewer --readers."],
            ) from error

    def close(self) -> None:
        """Give up the handle; the pages go when nobody has them mapped."""
        os.close(self._handle)

    def __getstate__(self) -> tuple[TileMemory, Any]:
        """For the arguments of a process: a handle of its own."""
        return self._layout, reduction.DupFd(self._handle)

    def __setstate__(self, state: tuple[TileMemory, Any]) -> None:
        """In the process that got it."""
        self._layout, handle = state
        self._handle = handle.detach()
        self.tiles = _mapped(self._handle, self._layout)


def _nameless_file() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("fedcox-tiles")
    if os.name == "nt":
        raise InputError("Reader processes need Linux or macOS.", ["Say --readers 0."])
    handle, path = tempfile.mkstemp(prefix="fedcox-tiles-")
    os.unlink(path)  # noqa: PTH108  # what mkstemp gives is no Path
    return handle


def _mapped(handle: int, layout: TileMemory) -> NDArray[np.uint8]:
    memory = mmap.mmap(handle, prod(layout.shape))
    return np.frombuffer(memory, np.uint8).reshape(layout.shape)
