"""`fedcox coordinator stop`: close the door."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedcox.cli.say import say


def stop(
    folder: Annotated[
        Path, typer.Option(metavar="FOLDER", help="The coordinator's folder.")
    ] = Path("coordinator"),
) -> None:
    """Stop the server and every study that runs on it; finished rounds are kept.

    Centers stay where they are and connect again when the server is back.

    Example: fedcox coordinator stop
    """
    from fedcox.deployment import server
    from fedcox.deployment.coordinator_folder import CoordinatorFolder

    ran = server.stop(CoordinatorFolder.read(folder))
    say("The server has stopped." if ran else "The server was not running.")
