"""`fedcox coordinator renew`: certificates that hold for longer."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedcox.cli.say import say


def renew(
    days: Annotated[
        int, typer.Option(metavar="DAYS", help="How long the new ones hold, from today.")
    ] = 365,
    folder: Annotated[
        Path, typer.Option(metavar="FOLDER", help="The coordinator's folder.")
    ] = Path("coordinator"),
) -> None:
    """Make new certificates for the server and new kits for all hospitals.

    Restart the server afterwards. Each hospital takes its new kit with
    `fedcox center join NAME.kit --renew`; until the old certificates end, a hospital that
    has not yet done so still gets in.

    Example: fedcox coordinator renew --days 365
    """
    from datetime import UTC, datetime

    from fedcox.cli.coordinator.kit_table import show_kits
    from fedcox.deployment import coordinator_folder as folders

    now = datetime.now(UTC)
    passwords = folders.renew(folders.CoordinatorFolder.read(folder), days=days, now=now)
    made = folders.CoordinatorFolder.read(folder)
    show_kits(made, folder, passwords)
    say(f"Every certificate now ends on {made.expires}. Restart the server.")
