"""Batches of the tiles of many slides, in order, read by several processes.

Every batch has its slot in shared memory. Readers fill parts of the slots, in any order;
batches are handed out in the order of slides and tiles, whoever was quicker. A slide that
cannot be read, or that a reader dies over, is told as such, and the others go on.
"""

from __future__ import annotations

import signal
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import connection as connections
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedcox.errors import InputError
from fedcox.slides.reader_process import (
    READY,
    Errand,
    Shape,
    SharedTiles,
    TileReader,
    TileSource,
    serve,
)

#: Tiles of one errand: some 30 ms of work, so that a batch is spread over the readers.
_ERRAND_TILES = 32
#: Errands that a reader has at once, so that it never waits for the next one.
AHEAD = 3
_GOODBYE_SECONDS = 5.0
Reply: TypeAlias = tuple[int, str]
"""An errand's number, and why it failed, or nothing."""


@dataclass(frozen=True, eq=False)
class SlideTiles:
    """The tiles to read from a slide: `coords` (tiles, 2) are pixels of level 0."""

    slide_id: str
    source: TileSource
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
        shape = held + 1 + filling, batch, tile_px, tile_px, 3
        self._pool: AbstractPool = ProcessPool(shape, readers) if readers else OwnPool(shape)
        self._free = deque(range(shape[0]))
        self._filling: deque[_Filling] = deque()
        self._unsent: deque[Errand] = deque()
        self._batch_of: dict[int, _Filling] = {}
        self._errands = 0
        self._reasons: dict[str, str] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
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
        reported: set[str] = set()
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
            if slide_id not in reported:
                reported.add(slide_id)
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


class AbstractPool(ABC):
    """Runs errands over `memory`, (slots, batch, tile_px, tile_px, 3)."""

    memory: NDArray[np.uint8]

    @abstractmethod
    def has_room(self) -> bool:
        """Whether a further errand would be begun without delay."""

    @abstractmethod
    def send(self, errand: Errand) -> None: ...

    @abstractmethod
    def replies(self, *, wait: bool) -> list[Reply]:
        """Of errands that have ended; at least one where `wait` is set."""

    @abstractmethod
    def close(self) -> None:
        """End the readers, whatever they do, and let the memory go."""

    @property
    def pids(self) -> tuple[int, ...]:
        """The readers' process numbers."""
        return ()


class OwnPool(AbstractPool):
    """Reads in this process, when asked for replies."""

    def __init__(self, shape: Shape) -> None:
        self.memory = np.zeros(shape, np.uint8)
        self._reader = TileReader(self.memory)
        self._errands: deque[Errand] = deque()

    def has_room(self) -> bool:
        return not self._errands

    def send(self, errand: Errand) -> None:
        self._errands.append(errand)

    def replies(self, *, wait: bool) -> list[Reply]:
        if not wait:
            return []
        errand = self._errands.popleft()
        return [(errand.number, self._reader.fill(errand))]

    def close(self) -> None:
        self._reader.close()


@dataclass(eq=False)
class _Worker:
    process: SpawnProcess
    connection: Connection
    errands: deque[Errand] = field(default_factory=deque)
    has_started: bool = False


class ProcessPool(AbstractPool):
    """Readers as processes of their own; one that dies is replaced.

    The errand that it died over has failed; its others are given to its successor.
    """

    def __init__(self, shape: Shape, readers: int) -> None:
        self._shared = SharedTiles(shape)
        self.memory = self._shared.tiles
        # A fork would copy this process's threads' locks, and a CUDA context that cannot be.
        self._context = get_context("spawn")
        self._workers: list[_Worker] = []
        try:
            for _ in range(readers):
                self._workers.append(self._worker())
        except BaseException:
            self.close()
            raise

    @property
    def pids(self) -> tuple[int, ...]:
        return tuple(worker.process.pid or 0 for worker in self._workers)

    def has_room(self) -> bool:
        return len(self._least_busy().errands) < AHEAD

    def send(self, errand: Errand) -> None:
        self._give(self._least_busy(), errand)

    def replies(self, *, wait: bool) -> list[Reply]:
        while True:
            ready = self._received(None if wait else 0.0)
            if ready or not wait:
                return ready

    def close(self) -> None:
        for worker in self._workers:
            worker.connection.close()
        for worker in self._workers:
            worker.process.join(_GOODBYE_SECONDS)
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()
            worker.process.close()
        self._workers.clear()
        self._shared.close()

    def _received(self, seconds: float | None) -> list[Reply]:
        spoken = connections.wait([worker.connection for worker in self._workers], seconds)
        ready = [worker for worker in self._workers if worker.connection in spoken]
        return [reply for worker in ready for reply in self._receive(worker)]

    def _receive(self, worker: _Worker) -> Iterable[Reply]:
        try:
            reply: Reply = worker.connection.recv()
        except (EOFError, OSError):
            return self._replaced(worker)
        if reply == READY:
            worker.has_started = True
            return []
        worker.errands.popleft()
        return [reply]

    def _replaced(self, worker: _Worker) -> Iterable[Reply]:
        worker.connection.close()
        worker.process.join()
        ended = _how(worker.process.exitcode)
        worker.process.close()
        self._workers.remove(worker)
        if not worker.has_started:
            raise InputError(
                f"A process that is to read slides ended at once, {ended}.",
                ["Say --readers 0 to read in this process, which then tells why."],
            )
        successor = self._worker()
        self._workers.append(successor)
        replies = []
        if worker.errands:
            reason = f"The process that read the slide ended, {ended}."
            replies.append((worker.errands.popleft().number, reason))
        for errand in worker.errands:
            self._give(successor, errand)
        return replies

    def _worker(self) -> _Worker:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(
            target=serve, args=(theirs, self._shared), daemon=True, name="fedcox-reader"
        )
        process.start()
        theirs.close()
        return _Worker(process, ours)

    def _least_busy(self) -> _Worker:
        return min(self._workers, key=lambda worker: len(worker.errands))

    def _give(self, worker: _Worker, errand: Errand) -> None:
        worker.errands.append(errand)
        # One that has just died is noticed, and its errands with it, at the next reply.
        with suppress(OSError):
            worker.connection.send(errand)


def _how(exit_code: int | None) -> str:
    if exit_code is not None and exit_code < 0:
        with suppress(ValueError):
            return f"killed by {signal.Signals(-exit_code).name}"
    return f"with status {exit_code}"
