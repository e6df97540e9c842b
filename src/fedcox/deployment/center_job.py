"""What FLARE runs at a center: every message goes to its end, and only the server may send."""

from __future__ import annotations

import logging
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from threading import Lock
from typing import Any

from nvflare.collab import collab

import fedcox.data.cohort_file  # noqa: F401  # takes a second: now, not in the first round
from fedcox.deployment.center_folder import CenterFolder
from fedcox.deployment.study_admission import StudyAdmission
from fedcox.engines.nvflare.center_end import CenterEnd
from fedcox.engines.nvflare.messages import Refusal, refusal
from fedcox.engines.nvflare.transport import make_ready

for extra in ("fedcox.privacy.secure_sum_center", "dp_accounting"):  # now, too
    with suppress(ImportError):
        import_module(extra)


class CenterJob:
    """One object per job; the patients are read once and stay in memory until it ends."""

    def __init__(self) -> None:
        self._end: CenterEnd | None = None
        self._lock = Lock()

    @collab.publish  # type: ignore[untyped-decorator]
    def handle(self, message: bytes, context: Any = None) -> bytes:
        """Answer one message of the coordinator."""
        # FLARE lets the centers of a job call each other; here nobody but the server asks.
        if context is None or context.caller != context.server.name:
            return refusal(None, Refusal("order"))
        try:
            end = self._opened(Path(context.workspace.get_root_dir()).parent)
        except Exception:  # whatever it is, no text of it may leave
            logging.getLogger(__name__).exception("This center cannot answer.")
            return refusal(None, Refusal("fault"))
        return end.handle(message)

    def _opened(self, home: Path) -> CenterEnd:
        with self._lock:  # the engine brings messages in many threads
            if self._end is None:
                folder = CenterFolder.read(home)
                self._end = CenterEnd(folder.name, StudyAdmission(folder))
                make_ready()
            return self._end
