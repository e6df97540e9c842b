"""What one reader does: open slides, and put tiles where it is told to."""

from __future__ import annotations

import signal
from collections import OrderedDict
from contextlib import ExitStack
from multiprocessing.connection import Connection
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedcox.errors import InputError
from fedcox.slides.shared_tiles import SharedTiles
from fedcox.slides.slide import Slide, open_slide

READY = (-1, "ready")
#: Readers work on the end of one slide and the beginning of the next.
_KEPT_OPEN = 2


class Source(NamedTuple):
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
    source: Source
    slot: int
    first: int
    places: tuple[tuple[int, int], ...]


class TileReader:
    """Reads tiles into (slots, batch, …), and keeps the slides that it read last open."""

    def __init__(self, tiles: NDArray[np.uint8]) -> None:
        self._tiles = tiles
        self._open: OrderedDict[Source, tuple[Slide, ExitStack]] = OrderedDict()

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

    def _slide(self, source: Source) -> Slide:
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
