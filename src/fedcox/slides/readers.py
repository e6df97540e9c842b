"""Batches of the tiles of many slides, in order, read by several processes.

Every batch has its slot in shared memory. Readers fill parts of the slots, in any order;
batches are handed out in the order of slides and tiles, whoever was quicker. A slide that
cannot be read, or that a reader dies over, is told as such, and the others go on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray

from fedcox.slides.reader_pool import AHEAD, AbstractPool, OwnPool, ProcessPool
from fedcox.slides.reader_process import Errand, Source
from fedcox.slides.shared_tiles import TileMemory

#: Tiles of one errand: some 30 ms of work, so that a batch is spread over the readers.
_ERRAND_TILES = 32


@dataclass(frozen=True, eq=False)
class SlideTiles:
    """The tiles to read from a slide: `coords` (tiles, 2) are pixels of level 0."""

    slide_id: str
    source: Source
    coords: NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class TileBatch:
    """Tiles `first` to `first + count` of a slide; what is left of the batch is black.

    `tiles` (batch, tile_px, tile_px, 3) stay as they are until the batch is given back.
    """

    slide_id: str
    first: int
    count: int
    tiles: NDArray[np.uint8]
    slot: int


@dataclass(frozen=True)
class UnreadableSlide:
    """No further batches of this slide come, and those before are of no use."""

    slide_id: str
    reason: str


@dataclass(eq=False)
class _Filling:
    """A batch that is on its way."""

    slide: SlideTiles
    first: int
    count: int
    slot: int
    errands_left: int


class TileReaders:
    """Reader processes over one memory; with none, tiles are read in this process.

    `held` is how many batches the caller keeps before it gives the first one back.
    """

    def __init__(self, readers: int, batch: int, tile_px: int, *, held: int) -> None:
        self._batch = batch
        self._errand_tiles = min(_ERRAND_TILES, batch)
        filling = max(1, -(-readers * AHEAD * self._errand_tiles // batch))
        layout = TileMemory(held + 1 + filling, batch, tile_px)
        self._pool: AbstractPool = ProcessPool(layout, readers) if readers else OwnPool(layout)
        self._free = deque(range(layout.slots))
        self._filling: deque[_Filling] = deque()
        self._unsent: deque[Errand] = deque()
        self._batch_of: dict[int, _Filling] = {}
        self._errands = 0
        self._reasons: dict[str, str] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._pool.close()

    @property
    def memory(self) -> NDArray[np.uint8]:
        """Where every batch lies: (slots, batch, tile_px, tile_px, 3)."""
        return self._pool.memory

    @property
    def pids(self) -> tuple[int, ...]:
        """The readers' process numbers."""
        return self._pool.pids

    def batches(self, slides: Iterable[SlideTiles]) -> Iterator[TileBatch | UnreadableSlide]:
        """Every batch in order; slides are taken when there is room to read ahead in them."""
        pieces = self._pieces(slides)
        told: set[str] = set()
        while True:
            self._begin(pieces)
            if not self._filling:
                return
            self._settle(wait=self._filling[0].errands_left > 0)
            if self._filling[0].errands_left > 0:
                continue
            head = self._filling.popleft()
            slide_id = head.slide.slide_id
            if slide_id not in self._reasons:
                tiles = self.memory[head.slot]
                yield TileBatch(slide_id, head.first, head.count, tiles, head.slot)
                continue
            self._free.append(head.slot)
            if slide_id not in told:
                told.add(slide_id)
                yield UnreadableSlide(slide_id, self._reasons[slide_id])

    def give_back(self, batch: TileBatch) -> None:
        """Let the batch's place be filled anew."""
        self._free.append(batch.slot)

    def _pieces(self, slides: Iterable[SlideTiles]) -> Iterator[tuple[SlideTiles, int]]:
        for slide in slides:
            for first in range(0, len(slide.coords), self._batch):
                if slide.slide_id in self._reasons:
                    break
                yield slide, first

    def _begin(self, pieces: Iterator[tuple[SlideTiles, int]]) -> None:
        """Give every free slot a batch, and every reader errands."""
        while self._free and (piece := next(pieces, None)) is not None:
            self._cut(*piece, self._free.popleft())
        while self._unsent and self._pool.has_room():
            errand = self._unsent.popleft()
            filling = self._batch_of[errand.number]
            if filling.slide.slide_id in self._reasons:
                self._end(errand.number)
            else:
                self._pool.send(errand)

    def _cut(self, slide: SlideTiles, first: int, slot: int) -> None:
        coords = slide.coords[first : first + self._batch]
        self.memory[slot, len(coords) :] = 0
        starts = range(0, len(coords), self._errand_tiles)
        filling = _Filling(slide, first, len(coords), slot, len(starts))
        self._filling.append(filling)
        for start in starts:
            places = coords[start : start + self._errand_tiles].tolist()
            errand = Errand(
                self._errands, slide.source, slot, start, tuple((x, y) for x, y in places)
            )
            self._batch_of[errand.number] = filling
            self._unsent.append(errand)
            self._errands += 1

    def _settle(self, *, wait: bool) -> None:
        for number, reason in self._pool.replies(wait=wait):
            filling = self._end(number)
            if reason:
                self._reasons.setdefault(filling.slide.slide_id, reason)

    def _end(self, number: int) -> _Filling:
        filling = self._batch_of.pop(number)
        filling.errands_left -= 1
        return filling
