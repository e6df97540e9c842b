"""Patients summed over in parts, on several threads: the same bits on any number of them.

Where patients are cut depends on how many they are, never on the threads, and what the parts
give is taken in their order. numpy and BLAS let go of the interpreter while they compute. BLAS
itself works on one thread meanwhile: two pools wait for each other, and how it would share out
a sum depends on how many threads it has.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar, copy_context
from functools import cache
from itertools import pairwise
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Lock
from typing import TYPE_CHECKING, TypeVar

import numpy as np

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

Part = TypeVar("Part")

#: Numbers in a part, at least: with fewer, threads wait for each other longer than they work.
_WORTH = 2**20
#: Parts, at most: each costs a little, and some are needed to keep all threads busy to the end.
_MOST_PARTS = 16

_chosen: ContextVar[int | None] = ContextVar("threads", default=None)


@contextmanager
def at_most(threads: int | None) -> Iterator[None]:
    """So many threads until the end of the block; None for as many as there are cores."""
    before = _chosen.set(threads)
    try:
        yield
    finally:
        _chosen.reset(before)


def threads() -> int:
    """How many threads sums are shared out to here.

    What `at_most` says; else what OMP_NUM_THREADS does; else a thread for every core.
    """
    chosen = _chosen.get()
    if chosen is not None:
        return chosen
    said = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    if said.isdigit() and int(said) > 0:
        return int(said)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def parts(rows: int, numbers: int, *, least: int = 1) -> list[slice]:
    """Cut so many rows, each worth so many `numbers`, into parts of at least `least`."""
    count = min(_MOST_PARTS, rows // max(least, -(-_WORTH // max(numbers, 1)))) or 1
    return [slice(*both) for both in pairwise(rows * k // count for k in range(count + 1))]


def in_order(work: Callable[[slice], Part], cut: Sequence[slice]) -> list[Part]:
    """What `work` gives for each part, computed on several threads at once."""
    with _one_thread_in_blas() as alone:
        many = min(threads(), len(cut)) if alone else 1
        if many == 1:
            return [work(part) for part in cut]
        results: dict[int, Part] = {}
        waiting = SimpleQueue[int]()
        for number in range(len(cut)):
            waiting.put(number)

        def take() -> None:
            _chosen.set(1)  # whatever `work` asks for in its turn stays on this thread
            with suppress(Empty):
                while True:
                    number = waiting.get_nowait()
                    results[number] = work(cut[number])

        # In copies of the context: how numpy is to treat an overflow goes along.
        helpers = [_pool(many - 1).submit(copy_context().run, take) for _ in range(many - 1)]
        try:
            copy_context().run(take)
        finally:
            for helper in helpers:
                helper.result()
        return [results[number] for number in range(len(cut))]


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    from concurrent.futures import ThreadPoolExecutor  # few programs need it: not at import

    return ThreadPoolExecutor(threads, thread_name_prefix="fedcox")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # threads are not copied


# BLAS.

_lock = Lock()
_inside = 0  # how many sums are being computed; the first and the last of them set BLAS
_before = 1  # how many threads BLAS had


@contextmanager
def _one_thread_in_blas() -> Iterator[bool]:
    """Keep BLAS on one thread; gives whether that is so."""
    global _inside, _before
    blas = _blas()
    if blas is None:
        yield os.environ.get("OMP_NUM_THREADS") == "1"
        return
    count, choose = blas
    with _lock:
        if not _inside:
            _before = count()
            if _before != 1:
                choose(1)
        _inside += 1
    try:
        yield True
    finally:
        with _lock:
            _inside -= 1
            if not _inside and _before != 1:
                choose(_before)


@cache
def _blas() -> tuple[Callable[[], int], Callable[[int], None]] | None:
    """How many threads the BLAS that came with numpy has, and a way to choose; or None."""
    package = Path(np.__file__).parent
    for file in (
        *package.parent.glob("numpy.libs/*openblas*"),
        *package.glob(".dylibs/*openblas*"),
    ):
        library = ctypes.CDLL(str(file))  # it is loaded already
        for form in ("scipy_openblas_{}_num_threads64_", "scipy_openblas_{}_num_threads"):
            if hasattr(library, form.format("set")):
                count, choose = (getattr(library, form.format(do)) for do in ("get", "set"))
                return count, choose
    return None
