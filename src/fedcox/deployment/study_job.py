"""What FLARE runs at the coordinator: one study over the centers that are connected."""

from __future__ import annotations

import gc
from pathlib import Path

from nvflare.collab import collab

from fedcox.deployment.conduct import conduct
from fedcox.deployment.coordinator_folder import CoordinatorFolder
from fedcox.deployment.run_folder import RunFolder
from fedcox.engines.nvflare.line import CollabLine


class StudyJob:
    """A run, named by its folder among the coordinator's runs."""

    def __init__(self, run: str) -> None:
        self.run = run

    @collab.main  # type: ignore[untyped-decorator]
    def conduct(self) -> None:
        """From the first message to the report."""
        folder = CoordinatorFolder.read(Path(collab.workspace.get_root_dir()).parent)
        line = CollabLine({site.name: site for site in collab.clients})
        run = RunFolder(folder.runs / self.run)
        settings = run.read_settings()
        gc.freeze()  # else the engine's many objects are looked through in mid-round
        conduct(
            run,
            line,
            settings["centers"],
            command=settings["command"],
            pings=settings["pings"],
            wait=settings["wait"],
        )
