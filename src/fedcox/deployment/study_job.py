"""What FLARE runs at the coordinator: one study over the centers that are connected.

Two ways of the engine's own are changed for it. The engine would end the study for everybody
where one center's process does not start, and name nobody; whether a study goes on without a
center is the study's own word. And it remembers every reply for a minute, to know a second copy
of it, and starts a thread that waits for that minute: after a few hundred rounds the
coordinator's process would have thousands of them, and a round would take half as long again.
Here one thread forgets them all.
"""

from __future__ import annotations

import heapq
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from itertools import count
from pathlib import Path
from threading import TIMEOUT_MAX, Condition, Thread
from types import SimpleNamespace
from typing import Any

from nvflare.collab import collab
from nvflare.collab.runtime.controller import CollabController
from nvflare.collab.runtime.defs import SYNC_TASK_NAME

from fedcox.deployment.coordinator_folder import CoordinatorFolder
from fedcox.deployment.extras import flare_module
from fedcox.deployment.runs import RunFolder
from fedcox.deployment.study_run import run_study
from fedcox.engines.nvflare.transport import CollabTransport, make_ready

with suppress(ImportError):  # an extra; now, and not in the first round
    import_module("fedcox.privacy.secure_sum")

#: What a center publishes, and by what one that has started is known.
PUBLISHED = "handle"
_NOTHING = SimpleNamespace(publish_interface={})


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


class StudyController(CollabController):  # type: ignore[misc]  # the engine has no types
    """The engine's own, to which a center that did not start is one that publishes nothing."""

    def broadcast_and_wait(
        self,
        task: Any,
        fl_ctx: Any,
        targets: Any = None,
        min_responses: int = 1,
        wait_time_after_min_received: int = 0,
        abort_signal: Any = None,
    ) -> None:
        """Ask those that are there to tell what they publish, then to be ready for calls."""
        present = [
            name for name, interface in self.client_info.items() if interface is not _NOTHING
        ]
        if not present:
            return
        super().broadcast_and_wait(
            task, fl_ctx, present, len(present), wait_time_after_min_received, abort_signal
        )
        for name in present:
            if task.name == SYNC_TASK_NAME:
                started = _publishes(self.client_info[name])
            else:
                started = self.client_setup_status[name]
            if not started:
                self.client_info[name] = _NOTHING
                self.client_setup_status[name] = True  # else the engine ends the study


def has_started(site: Any) -> bool:
    """Whether a center's process can be called, by the engine's proxy for it."""
    parts = [site, *site.children.values()]
    return any(part.target_interface.get_method(PUBLISHED) is not None for part in parts)


def _publishes(interface: Any) -> bool:
    """As it says itself: of the objects of its job, by their names, which methods."""
    published = getattr(interface, "publish_interface", None)
    objects = published.values() if isinstance(published, dict) else ()
    return any(isinstance(methods, dict) and PUBLISHED in methods for methods in objects)


class StudyJob:
    """A run, named by its folder among the coordinator's runs."""

    def __init__(self, run: str) -> None:
        self.run = run

    @collab.main  # type: ignore[untyped-decorator]
    def conduct(self) -> None:
        """From the first message to the report."""
        folder = CoordinatorFolder.read(Path(collab.workspace.get_root_dir()).parent)
        run, context = RunFolder(folder.runs / self.run), collab.context
        settings = run.read_settings()
        transport = CollabTransport(
            {site.name: site if has_started(site) else None for site in collab.clients},
            stopped=lambda: run.stop.exists() or bool(context.is_aborted()),
        )
        forget_in_one_thread()
        make_ready()
        run_study(
            run,
            transport,
            settings["centers"],
            command=settings["command"],
            pings=settings["pings"],
            wait=settings["wait"],
        )
