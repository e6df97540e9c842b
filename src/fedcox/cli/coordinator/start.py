"""`fedcox coordinator start`: open the door to the centers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedcox.cli.say import say


def start(
    folder: Annotated[
        Path, typer.Option(metavar="FOLDER", help="The coordinator's folder.")
    ] = Path("coordinator"),
) -> None:
    """Start the server that the centers connect to, in the background.

    It listens at the address that was given to `fedcox coordinator init`; only this machine
    needs an open port. It runs until `fedcox coordinator stop`.

    Example: fedcox coordinator start
    """
    from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

    from fedcox.cli.folder_option import folder_option
    from fedcox.cli.progress import progress_bar
    from fedcox.deployment import server
    from fedcox.deployment.coordinator_folder import CoordinatorFolder

    project = CoordinatorFolder.read(folder)
    spinner = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with progress_bar(*spinner) as progress:
        progress.add_task("starting the server", total=None)
        pid = server.start(project)
    say(f"The server of {project.project} listens at {project.host}:{project.port}.")
    say(f"Process {pid}; its log is {project.log}.")
    option = folder_option(folder, "coordinator")
    say(f"Who is connected: fedcox coordinator status{option}")
