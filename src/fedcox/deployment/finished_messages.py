"""Who forgets a message that has arrived? One thread for all of them, and not one for each.

The engine remembers every reply for a minute, to know a second copy of it, and starts a thread
that waits for that minute. After a few hundred rounds the coordinator's process would have
thousands of them, and a round would take half as long again.
"""

from __future__ import annotations

import heapq
import logging
import time
from collections.abc import Callable
from itertools import count
from threading import TIMEOUT_MAX, Condition, Thread
from typing import Any

from fedcox.deployment.flare import flare_module


class Later:
    """Calls what it is given when its time has come, one after the other in one thread."""

    def __init__(self) -> None:
        self._waiting: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()  # of two for the same moment the earlier one comes first
        self._changed = Condition()
        Thread(target=self._run, name="fedcox_later", daemon=True).start()

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        """Call it so many seconds from now."""
        due = (time.monotonic() + seconds, next(self._numbers), call)
        with self._changed:
            heapq.heappush(self._waiting, due)
            if self._waiting[0] is due:
                self._changed.notify()

    def _run(self) -> None:
        while True:
            call = self._next()
            try:
                call()
            except Exception:  # the others still have their turn
                logging.getLogger(__name__).exception("A message could not be forgotten.")

    def _next(self) -> Callable[[], None]:
        with self._changed:
            while True:
                left = self._waiting[0][0] - time.monotonic() if self._waiting else TIMEOUT_MAX
                if left <= 0:
                    return heapq.heappop(self._waiting)[2]
                self._changed.wait(min(left, TIMEOUT_MAX))


class _Scheduled:
    """What the engine holds in place of a timer of its own."""

    def cancel(self) -> None:
        """Nothing to do: a message that is forgotten twice is forgotten."""


def forget_in_one_thread() -> None:
    """From here on, in this process."""
    receiver = flare_module("nvflare.fuel.f3.streaming.byte_receiver").RxTask
    if not hasattr(receiver, "_schedule_remove_task"):
        raise RuntimeError("this version of the engine forgets messages otherwise than known")
    later = Later()

    def schedule(message: Any, ttl: float | None = None) -> None:
        with message.stop_lock:
            if message.cleanup_timer is not None:
                return
            message.cleanup_timer = _Scheduled()
        later.after(message.completed_task_ttl if ttl is None else ttl, message._remove_task)

    receiver._schedule_remove_task = schedule
