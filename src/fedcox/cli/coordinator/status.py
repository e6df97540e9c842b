"""`fedcox coordinator status`: whether the server runs, and who is connected."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def status(
    folder: Annotated[
        Path, typer.Option(metavar="FOLDER", help="The coordinator's folder.")
    ] = Path("coordinator"),
) -> None:
    """Show whether the server runs and which centers are connected to it.

    A center that ends is shown as connected for ten seconds more.
    Exit status 1 where the server does not run.

    Example: fedcox coordinator status
    """
    from datetime import datetime

    from rich.markup import escape
    from rich.table import Table

    from fedcox.cli.terminal import Terminal
    from fedcox.deployment import jobs, server
    from fedcox.deployment.coordinator_folder import CoordinatorFolder

    project = CoordinatorFolder.read(folder)
    console = Terminal()
    running = server.running(project)
    if running is None:
        console.print("The server does not run. Start it: fedcox coordinator start")
        raise typer.Exit(1)
    since = datetime.fromtimestamp(running.started).strftime("%Y-%m-%d %H:%M")
    console.print(
        f"The server of {escape(project.project)} listens at {project.host}:{project.port}, "
        f"since {since} (process {running.pid}).",
        highlight=False,
    )
    console.print(f"Certificates are valid until {project.expires}.", highlight=False)
    with jobs.session(project) as session:
        present = session.connected()
    table = Table("center", "connected")
    for name in project.centers:
        table.add_row(escape(name), "[green]yes[/]" if name in present else "no")
    console.print(table)
