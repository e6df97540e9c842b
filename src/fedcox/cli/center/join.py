"""`fedcox center join`: from a start-up kit to a hospital's own folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from fedcox.deployment.center_folder import CenterFolder


def join(
    kit: Annotated[
        Path, typer.Argument(metavar="NAME.kit", help="The file that the coordinator sent.")
    ],
    folder: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Where to keep it all; must not exist.")
    ] = Path("center"),
    password_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Read the kit's password from here instead of asking for it."
        ),
    ] = None,
    renew: Annotated[
        bool,
        typer.Option(
            "--renew", help="Take a newer kit into use in the folder that is there already."
        ),
    ] = False,
) -> None:
    """Open a start-up kit and make this hospital's folder from it.

    The kit gives a certificate and the coordinator's address, and nothing else is taken from
    it: the rules that protect this machine are written here, and no program of the kit is run.
    Nobody connects to a hospital; only it connects to the coordinator.

    The command makes this hospital's identity and shows its fingerprint: tell it to the other
    hospitals over the telephone, since by it they know that a masked sum is yours.

    Example: fedcox center join A.kit
    """
    from datetime import UTC, datetime

    from fedcox.deployment import center_folder as folders

    now = datetime.now(UTC)
    if not renew:
        folders.check_new(folder)
    password = _password(kit, password_file)
    take = folders.renew if renew else folders.join
    _show(take(kit, password, folder, now=now), folder)


def _show(joined: CenterFolder, folder: Path) -> None:
    from rich.markup import escape

    from fedcox.cli.folder_option import folder_option
    from fedcox.cli.terminal import Terminal
    from fedcox.privacy.identity import Identity

    console = Terminal(soft_wrap=True, highlight=False)
    place = f"{joined.host}:{joined.port}"
    console.print(
        f"[bold green]✓[/] [bold]{escape(joined.name)}[/] of {escape(joined.project)}, "
        f"coordinator at {escape(place)}"
    )
    console.print(f"Certificate until {joined.expires}.")
    console.print(
        f"Fingerprint of this center: [bold]{Identity.load(joined.identity).public.fingerprint}"
    )
    option = folder_option(folder, "center")
    console.print(escape(f"Next: fedcox center start{option} --data FILE --policy policy.toml"))


def _password(kit: Path, file: Path | None) -> str:
    import sys

    from fedcox.errors import DeploymentError

    if file is None:
        if not sys.stdin.isatty():
            raise DeploymentError(
                "There is no terminal to ask for the kit's password.",
                ["Write it into a file that only you can read, and give --password-file FILE."],
            )
        return str(typer.prompt(f"Password of {kit.name}", hide_input=True))
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DeploymentError(f"The password file {file} cannot be read.") from error
