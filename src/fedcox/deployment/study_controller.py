"""Which centers does a study begin with? Those whose processes for it have started.

The engine would end the study for everybody where one center's process does not start, and
name nobody. Whether a study goes on without a center is the study's own word.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from nvflare.collab.runtime.controller import CollabController
from nvflare.collab.runtime.defs import SYNC_TASK_NAME

#: What a center publishes, and by what one that has started is known.
PUBLISHED = "handle"
_NOTHING = SimpleNamespace(publish_interface={})


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
        present = [name for name, told in self.client_info.items() if told is not _NOTHING]
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


def _publishes(told: Any) -> bool:
    """As it says itself: of the objects of its job, by their names, which methods."""
    published = getattr(told, "publish_interface", None)
    objects = published.values() if isinstance(published, dict) else ()
    return any(isinstance(methods, dict) and PUBLISHED in methods for methods in objects)
