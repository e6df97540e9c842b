"""`fedcox coordinator …`: the one machine that hospitals connect to."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedcox.cli.coordinator_run import CoordinatorHome, run
from fedcox.cli.terminal import Terminal, folder_option, say, spinner

if TYPE_CHECKING:
    from fedcox.deployment.coordinator_folder import CoordinatorFolder


def show_kits(made: CoordinatorFolder, folder: Path, passwords: dict[str, str]) -> None:
    """One line per kit: for whom, where it lies, what opens it."""
    from rich.markup import escape
    from rich.table import Table

    console = Terminal(soft_wrap=True)
    console.print(
        f"[bold green]✓[/] [bold]{escape(made.project)}[/] at {escape(made.host)}:{made.port}"
    )
    table = Table("center", "kit", "password")
    for name, password in passwords.items():
        table.add_row(escape(name), escape(str(folder / "kits" / f"{name}.kit")), password)
    console.print(table)
    console.print(
        "Send each hospital its kit, and tell it the password by another way. The passwords "
        "are kept nowhere: note them now."
    )


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


def start(
    folder: CoordinatorHome = Path("coordinator"),
) -> None:
    """Start the server that the centers connect to, in the background.

    It listens at the address that was given to `fedcox coordinator init`; only this machine
    needs an open port. It runs until `fedcox coordinator stop`.

    Example: fedcox coordinator start
    """
    from fedcox.deployment import server
    from fedcox.deployment.coordinator_folder import CoordinatorFolder

    project = CoordinatorFolder.read(folder)
    with spinner() as progress:
        progress.add_task("starting the server", total=None)
        pid = server.start(project)
    say(f"The server of {project.project} listens at {project.host}:{project.port}.")
    say(f"Process {pid}; its log is {project.log}.")
    option = folder_option(folder, "coordinator")
    say(f"Who is connected: fedcox coordinator status{option}")


def status(
    folder: CoordinatorHome = Path("coordinator"),
) -> None:
    """Show whether the server runs and which centers are connected to it.

    A center that ends is shown as connected for ten seconds more.
    Exit status 1 where the server does not run.

    Example: fedcox coordinator status
    """
    from datetime import datetime

    from rich.markup import escape
    from rich.table import Table

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


def stop(
    folder: CoordinatorHome = Path("coordinator"),
) -> None:
    """Stop the server and every study that runs on it; finished rounds are kept.

    Centers stay where they are and connect again when the server is back.

    Example: fedcox coordinator stop
    """
    from fedcox.deployment import server
    from fedcox.deployment.coordinator_folder import CoordinatorFolder

    ran = server.stop(CoordinatorFolder.read(folder))
    say("The server has stopped." if ran else "The server was not running.")


def add_center(
    name: Annotated[list[str], typer.Argument(metavar="NAME", help="The hospital to add.")],
    folder: CoordinatorHome = Path("coordinator"),
) -> None:
    """Make a start-up kit for a hospital that joins later.

    It is signed by the same authority and ends with the others; the server need not be
    restarted, and the kits of the others stay good.

    Example: fedcox coordinator add-center D
    """
    from datetime import UTC, datetime

    from fedcox.deployment.coordinator_folder import CoordinatorFolder, add_centers

    passwords = add_centers(CoordinatorFolder.read(folder), name, now=datetime.now(UTC))
    made = CoordinatorFolder.read(folder)
    show_kits(made, folder, passwords)
    say(f"It ends on {made.expires}, as the others do.")


def renew(
    days: Annotated[
        int, typer.Option(metavar="DAYS", help="How long the new ones hold, from today.")
    ] = 365,
    folder: CoordinatorHome = Path("coordinator"),
) -> None:
    """Make new certificates for the server and new kits for all hospitals.

    Restart the server afterwards. Each hospital takes its new kit with
    `fedcox center join NAME.kit --renew`; until the old certificates end, a hospital that
    has not yet done so still gets in.

    Example: fedcox coordinator renew --days 365
    """
    from datetime import UTC, datetime

    from fedcox.deployment import coordinator_folder as folders

    now = datetime.now(UTC)
    passwords = folders.renew(folders.CoordinatorFolder.read(folder), days=days, now=now)
    made = folders.CoordinatorFolder.read(folder)
    show_kits(made, folder, passwords)
    say(f"Every certificate now ends on {made.expires}. Restart the server.")


coordinator = typer.Typer(
    name="coordinator",
    no_args_is_help=True,
    help="""Run studies over hospitals on other machines.

    In this order: init, start, run. Send every hospital its kit, and tell it the password
    by telephone.
    """,
)
for command in (init, start, status, run, stop, add_center, renew):
    coordinator.command()(command)
