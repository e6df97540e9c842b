"""What one reader does: open slides, and put tiles where it is told to.

Tiles go into memory that several processes see, and that leaves nothing behind: it has no name
and is gone with the last process that has it open, however that ended.
"""

from __future__ import annotations

import mmap
import os
import signal
import tempfile
from collections import OrderedDict
from contextlib import ExitStack
from math import prod
from multiprocessing import reduction
from multiprocessing.connection import Connection
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedcox.errors import InputError
from fedcox.slides.slide import Slide, open_slide

READY = (-1, "ready")
#: Readers work on the end of one slide and the beginning of the next.
_KEPT_OPEN = 2


Shape: TypeAlias = tuple[int, ...]
"""Of batches of tiles in 8-bit colours: (slots, batch, tile_px, tile_px, 3)."""


class SharedTiles:
    """Memory that a process made, and that it hands to processes as it starts them."""

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self._handle = _nameless_file()
        try:
            os.ftruncate(self._handle, prod(shape))
            self.tiles = _mapped(self._handle, shape)
        except OSError as error:
            os.close(self._handle)
            raise InputError(
                f"There is no memory for tiles on their way, {prod(shape):,} bytes: "
                f"{error.strerror or error}.",
                ["Say a smaller --batch, or fewer --readers."],
            ) from error

    def close(self) -> None:
        """Give up the handle; the pages go when nobody has them mapped."""
        os.close(self._handle)

    def __getstate__(self) -> tuple[Shape, Any]:
        """For the arguments of a process: a handle of its own."""
        return self._shape, reduction.DupFd(self._handle)

    def __setstate__(self, state: tuple[Shape, Any]) -> None:
        """In the process that got it."""
        self._shape, handle = state
        self._handle = handle.detach()
        self.tiles = _mapped(self._handle, self._shape)


def _nameless_file() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("fedcox-tiles")
    if os.name == "nt":
        raise InputError("Reader processes need Linux or macOS.", ["Say --readers 0."])
    handle, path = tempfile.mkstemp(prefix="fedcox-tiles-")
    os.unlink(path)  # noqa: PTH108  # what mkstemp gives is no Path
    return handle


def _mapped(handle: int, shape: Shape) -> NDArray[np.uint8]:
    memory = mmap.mmap(handle, prod(shape))
    return np.frombuffer(memory, np.uint8).reshape(shape)


class TileSource(NamedTuple):
    """A slide, and how its tiles are cut: `mpp` is theirs, `slide_mpp` that of level 0.

    `slide_mpp` counts only where the file does not tell its own.
    """

    path: str
    slide_mpp: float | None
    tile_px: int
    mpp: float


class Errand(NamedTuple):
    """Read tiles at these places (x, y) into a slot, from row `first` on."""

    number: int
    source: TileSource
    slot: int
    first: int
    places: tuple[tuple[int, int], ...]


class TileReader:
    """Reads tiles into (slots, batch, …), and keeps the slides that it read last open."""

    def __init__(self, tiles: NDArray[np.uint8]) -> None:
        self._tiles = tiles
        self._open: OrderedDict[TileSource, tuple[Slide, ExitStack]] = OrderedDict()

    def fill(self, errand: Errand) -> str:
        """Put the tiles in their place; the reply is empty, or why it cannot be done."""
        source = errand.source
        try:
            slide = self._slide(source)
            for row, (x, y) in enumerate(errand.places, start=errand.first):
                self._tiles[errand.slot, row] = slide.read_tile(
                    x, y, source.tile_px, source.mpp
                )
        except InputError as error:
            return " ".join([error.subject, *error.faults])
        except Exception as error:  # decoders raise what they like
            return f"A tile cannot be read ({type(error).__name__}: {error})."
        return ""

    def close(self) -> None:
        """Close every slide."""
        while self._open:
            self._open.popitem()[1][1].close()

    def _slide(self, source: TileSource) -> Slide:
        if source in self._open:
            self._open.move_to_end(source)
            return self._open[source][0]
        while len(self._open) >= _KEPT_OPEN:
            self._open.popitem(last=False)[1][1].close()
        stack = ExitStack()
        slide = stack.enter_context(open_slide(source.path, source.slide_mpp))
        self._open[source] = slide, stack
        return slide


def serve(connection: Connection, shared: SharedTiles) -> None:
    """Run errands until the other end closes, which it also does by dying."""
    # Ctrl-C reaches the whole group of processes; the first one decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    reader = TileReader(shared.tiles)
    try:
        connection.send(READY)
        while True:
            errand: Errand = connection.recv()
            connection.send((errand.number, reader.fill(errand)))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return
    finally:
        reader.close()
