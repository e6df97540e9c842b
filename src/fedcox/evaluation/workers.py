"""Rows made on several cores: processes that get the patients once, and leave nothing behind.

Processes are spawned, not forked, so that they begin clean and with the setting of one thread
for linear algebra each. They end when this process does, however it ends.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.connection import wait as wait_for_any
from typing import TYPE_CHECKING

from fedcox.errors import InputError

if TYPE_CHECKING:
    from fedcox.evaluation.experiment import Experiment, Job
    from fedcox.evaluation.result import Row

_THREAD_SETTINGS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)


def rows_made(experiment: Experiment, jobs: Sequence[Job], *, workers: int) -> Iterator[Row]:
    """The rows of these jobs as they come; one worker is this process itself."""
    if min(workers, len(jobs)) <= 1:
        yield from map(experiment.row, jobs)
    else:
        yield from _from_processes(experiment, jobs, min(workers, len(jobs)))


@contextmanager
def one_thread_each() -> Iterator[None]:
    """Processes that begin inside use one thread for linear algebra.

    It works on this process too, if numpy has not been loaded before.
    """
    before = {name: os.environ.get(name) for name in _THREAD_SETTINGS}
    os.environ.update(dict.fromkeys(_THREAD_SETTINGS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _from_processes(experiment: Experiment, jobs: Sequence[Job], workers: int) -> Iterator[Row]:
    context = multiprocessing.get_context("spawn")
    watched, ours = context.Pipe(duplex=False)
    with one_thread_each():
        pool = ProcessPoolExecutor(workers, context, _begin, (experiment, watched))
        try:
            yield from _as_they_come(pool, jobs, 2 * workers)
        except BrokenProcessPool:
            raise InputError(
                "A worker process came to a sudden end, most likely for want of memory.",
                ["The rows so far are kept: go on with fewer workers."],
            ) from None
        except BaseException:
            ours.close()  # workers end at once, whatever they are at
            raise
        finally:
            pool.shutdown(cancel_futures=True)
            ours.close()
            watched.close()


def _as_they_come(pool: ProcessPoolExecutor, jobs: Sequence[Job], ahead: int) -> Iterator[Row]:
    """A few jobs ahead of the workers, so that a failure is told before all were tried."""
    waiting: set[Future[Row]] = set()
    remaining = iter(jobs)
    while True:
        for job in remaining:
            with _ctrl_c_held():  # a worker may begin here, and is not to hear of it
                waiting.add(pool.submit(_row, job))
            if len(waiting) >= ahead:
                break
        if not waiting:
            return
        done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
        for future in done:
            yield future.result()


@contextmanager
def _ctrl_c_held() -> Iterator[None]:
    """Ctrl-C waits until the end of this; processes that begin inside never get it."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


_experiment: Experiment


def _begin(experiment: Experiment, watched: Connection) -> None:
    """In a new worker: keep the experiment, and end with the process that started this one."""
    global _experiment
    _experiment = experiment
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=end_with_parent, args=(watched,), daemon=True).start()


def end_with_parent(*watched: Connection) -> None:
    """End this process when the one that started it does, or one of these is closed there."""
    parent = multiprocessing.parent_process()
    wait_for_any([*watched, *([] if parent is None else [parent.sentinel])])
    os._exit(1)


def _row(job: Job) -> Row:
    return _experiment.row(job)
