"""`fedcox coordinator init`: a folder for the coordinator, and a kit for each hospital."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedcox.cli.say import say


def init(
    name: Annotated[
        str, typer.Option("--name", metavar="PROJECT", help="A name for the project.")
    ],
    host: Annotated[
        str,
        typer.Option(
            metavar="HOST",
            help="This machine, as the hospitals reach it: a host name or an IPv4 address.",
        ),
    ],
    center: Annotated[
        list[str],
        typer.Option("--center", metavar="NAME", help="A hospital; repeat for each."),
    ],
    port: Annotated[
        int, typer.Option(metavar="PORT", help="The only port that the hospitals need.")
    ] = 8002,
    days: Annotated[
        int, typer.Option(metavar="DAYS", help="How long every certificate shall hold.")
    ] = 365,
    folder: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Where to keep it all; must not exist.")
    ] = Path("coordinator"),
) -> None:
    """Make the coordinator's folder and a sealed start-up kit for each hospital.

    Send each hospital its kit, by any way, and tell it the password of that kit by another
    way, best over the telephone. The passwords are shown once and kept nowhere.

    Keep the folder to yourself: who holds it can pass for any participant.

    Example: fedcox coordinator init --name lung --host hub.example.org --center A --center B
    """
    from datetime import UTC, datetime

    from fedcox.cli.coordinator.kit_table import show_kits
    from fedcox.cli.folder_option import folder_option
    from fedcox.deployment.coordinator_folder import CoordinatorFolder, check_init, make_folder

    participants = check_init(
        folder, project=name, host=host, port=port, centers=center, days=days
    )
    passwords = make_folder(folder, participants, days=days, now=datetime.now(UTC))
    made = CoordinatorFolder.read(folder)
    show_kits(made, folder, passwords)
    option = folder_option(folder, "coordinator")
    say(
        f"Every certificate ends on {made.expires}; renew with: "
        f"fedcox coordinator renew{option}"
    )
    if not participants.on_loopback:
        say(
            f"The server will listen on port {port} of every address of this machine: open "
            "this port in the firewall, and no other."
        )
    say(f"Next: fedcox coordinator start{option}")
