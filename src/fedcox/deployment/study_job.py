"""What FLARE runs at the coordinator: one study over the centers that are connected."""

from __future__ import annotations

from pathlib import Path

from nvflare.collab import collab

from fedcox.deployment.before_rounds import make_ready
from fedcox.deployment.conduct import conduct
from fedcox.deployment.coordinator_folder import CoordinatorFolder
from fedcox.deployment.finished_messages import forget_in_one_thread
from fedcox.deployment.run_folder import RunFolder
from fedcox.deployment.study_controller import has_started
from fedcox.engines.nvflare.line import CollabLine


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
        line = CollabLine(
            {site.name: site if has_started(site) else None for site in collab.clients},
            stopped=lambda: run.stop.exists() or bool(context.is_aborted()),
        )
        forget_in_one_thread()
        make_ready()
        conduct(
            run,
            line,
            settings["centers"],
            command=settings["command"],
            pings=settings["pings"],
            wait=settings["wait"],
        )
