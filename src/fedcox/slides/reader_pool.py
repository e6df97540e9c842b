"""Who runs the errands of reading: processes, which may die, or this one."""

from __future__ import annotations

import signal
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import connection as connections
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedcox.errors import InputError
from fedcox.slides.reader_process import READY, Errand, TileReader, serve
from fedcox.slides.shared_tiles import SharedTiles, TileMemory

#: Errands that a reader has at once, so that it never waits for the next one.
AHEAD = 3
_GOODBYE_SECONDS = 5.0

Reply: TypeAlias = tuple[int, str]
"""An errand's number, and why it failed, or nothing."""


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

    def __init__(self, layout: TileMemory) -> None:
        self.memory = np.zeros(layout.shape, np.uint8)
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

    def __init__(self, layout: TileMemory, readers: int) -> None:
        self._shared = SharedTiles(layout)
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
            found = self._found(None if wait else 0.0)
            if found or not wait:
                return found

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

    def _found(self, seconds: float | None) -> list[Reply]:
        by_connection = {worker.connection: worker for worker in self._workers}
        spoken = connections.wait(by_connection, seconds)
        return [
            reply for one in spoken for reply in self._heard(by_connection[_connection(one)])
        ]

    def _heard(self, worker: _Worker) -> Iterable[Reply]:
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


def _connection(one: object) -> Connection:
    if not isinstance(one, Connection):
        raise TypeError(one)
    return one


def _how(exit_code: int | None) -> str:
    if exit_code is not None and exit_code < 0:
        with suppress(ValueError):
            return f"killed by {signal.Signals(-exit_code).name}"
    return f"with status {exit_code}"
