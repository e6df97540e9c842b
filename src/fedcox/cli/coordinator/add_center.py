"""`fedcox coordinator add-center`: a kit for a further hospital."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedcox.cli.say import say


def add_center(
    name: Annotated[list[str], typer.Argument(metavar="NAME", help="The hospital to add.")],
    folder: Annotated[
        Path, typer.Option(metavar="FOLDER", help="The coordinator's folder.")
    ] = Path("coordinator"),
) -> None:
    """Make a start-up kit for a hospital that joins later.

    It is signed by the same authority and ends with the others; the server need not be
    restarted, and the kits of the others stay good.

    Example: fedcox coordinator add-center D
    """
    from datetime import UTC, datetime

    from fedcox.cli.coordinator.kit_table import show_kits
    from fedcox.deployment.coordinator_folder import CoordinatorFolder, add_centers

    passwords = add_centers(CoordinatorFolder.read(folder), name, now=datetime.now(UTC))
    made = CoordinatorFolder.read(folder)
    show_kits(made, folder, passwords)
    say(f"It ends on {made.expires}, as the others do.")
