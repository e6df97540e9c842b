"""`fedcox center …`: what a hospital runs."""

from __future__ import annotations

import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from fedcox.cli.options import HospitalFile
from fedcox.cli.terminal import Terminal, folder_option

if TYPE_CHECKING:
    from fedcox.deployment.approval import Approvals, Request
    from fedcox.deployment.center_folder import CenterFolder, CenterSettings


_PAUSE = 0.5

CenterHome = Annotated[
    Path, typer.Option("--folder", metavar="FOLDER", help="This center's folder.")
]
BudgetFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Where these patients are in studies of several coordinators: the one file of "
        "what all of them spend. Kept from then on; else FOLDER/budget.jsonl.",
    ),
]


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
    from fedcox.deployment import center_folder as folders

    now = datetime.now(UTC)
    if not renew:
        folders.check_new(folder)
    password = _password(kit, password_file)
    take = folders.renew if renew else folders.join
    _show(take(kit, password, folder, now=now), folder)


def _show(joined: CenterFolder, folder: Path) -> None:
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


def start(
    data: HospitalFile,
    policy: Annotated[
        str,
        typer.Option(
            metavar="FILE",
            help="This hospital's own limits (policy.toml). The word default stands for the "
            "default limits, none for no limits.",
        ),
    ],
    folder: CenterHome = Path("center"),
    approve: Annotated[
        list[str] | None,
        typer.Option(metavar="CODE", help="Approve the study of this code; repeat."),
    ] = None,
    budget: BudgetFile = None,
    unseen: Annotated[
        bool,
        typer.Option("--unseen", help="With --approve: also one that was not shown here yet."),
    ] = False,
) -> None:
    """Connect to the coordinator and answer studies that are approved here.

    It opens no port: this machine calls the coordinator. Each new study is shown before its
    first question and asked about; without a terminal, approve it with
    `fedcox center approve CODE`, or, before anybody here has read it, with --approve CODE
    --unseen. Ctrl-C ends it.

    Example: fedcox center start --data patients.csv --policy policy.toml
    """
    from fedcox.deployment.approval import Approvals
    from fedcox.deployment.center_folder import CenterFolder
    from fedcox.deployment.client import prepare

    home = CenterFolder.read(folder)
    console = Terminal(highlight=False, soft_wrap=True)
    # Before anything is approved: it shows what is written to the center's log from here on.
    watched = _CenterTerminal(home, Approvals(home.pending, home.approved), console, folder)
    settings = prepare(home, data, policy, approve or [], unseen=unseen, budget=budget)
    _greet(home, console)
    _attend(home, settings, watched, console)


def _greet(home: CenterFolder, console: Terminal) -> None:
    """Whether the coordinator is there, and how long this center's kit is valid."""
    from fedcox.deployment import client

    away = client.why_not_connected(home)
    console.print(
        f"{home.name} connects to {home.host}:{home.port}. Ctrl-C ends it."
        if away is None
        else f"{home.name} waits for the coordinator: {away}. It is tried again until Ctrl-C."
    )
    console.print(client.validity(home))


def _attend(
    home: CenterFolder, settings: CenterSettings, watched: _CenterTerminal, console: Terminal
) -> None:
    """Answer until Ctrl-C; an end for any other reason is an error."""
    from fedcox.deployment import client, processes
    from fedcox.errors import DeploymentError

    forgotten = client.ForgottenJobs(home)
    process = client.run(home, settings)
    try:
        with processes.ended_in_order():
            while process.poll() is None:
                watched.look()
                forgotten.look()
                time.sleep(_PAUSE)
    except KeyboardInterrupt:
        console.print("Stopped.")
        return
    finally:
        client.stop(home)
    raise DeploymentError(
        "The connection ended by itself.",
        [client.why_not_connected(home) or f"See {home.log}, and start it again."],
    )


class _CenterTerminal:
    """What happens at a center, as lines on its terminal."""

    def __init__(
        self, home: CenterFolder, approvals: Approvals, console: Terminal, folder: Path
    ) -> None:
        from fedcox.files.followed import FollowedFile

        self._home, self._approvals, self._console = home, approvals, console
        self._option = folder_option(folder, "center")
        self._ledger, self._trouble = FollowedFile(home.ledger), FollowedFile(home.trouble)
        self._shown: set[str] = set()

    def look(self) -> None:
        for request in self._approvals.waiting():
            if request.code not in self._shown:
                self._shown.add(request.code)
                self._ask(request)
        for row in self._ledger.rows():
            self._console.print(
                f"{row['time'][11:19]} answered “{row['study']}”: {row['question']}, "
                f"{row['numbers']:,} numbers, protection: {row['protection']}.",
                markup=False,
            )
        for line in self._trouble.lines():
            self._console.print(line, markup=False, style="yellow")

    def _ask(self, request: Request) -> None:
        from fedcox.deployment.study_words import request_lines

        self._console.rule("A study asks to take part")
        for line in request_lines(request, self._home):
            self._console.print(line, markup=False, soft_wrap=True)
        approved = self._answer() if sys.stdin.isatty() else None
        if approved is not None:
            self._approvals.decide(request.code, approve=approved)
        else:
            self._console.print(
                f"Approve it with: fedcox center approve {request.code}{self._option}"
            )

    def _answer(self) -> bool | None:
        """The data manager's word; None where the input ends (Ctrl-D) before there is one."""
        try:
            return typer.confirm("Approve it?", default=False)
        except typer.Abort as stopped:
            self._console.print()
            # One exception for both keys; only what it was raised from tells them apart.
            if isinstance(stopped.__context__, EOFError):
                return None
            raise KeyboardInterrupt from None


def approve(
    code: Annotated[
        str | None, typer.Argument(metavar="[CODE]", help="The study's code.")
    ] = None,
    folder: CenterHome = Path("center"),
    decline: Annotated[
        bool, typer.Option("--decline", help="Say no to it, or take an approval back.")
    ] = False,
    budget: BudgetFile = None,
    unseen: Annotated[
        bool,
        typer.Option("--unseen", help="Approve a study that was not shown here: unattended."),
    ] = False,
) -> None:
    """Approve a study, or show those that wait for it.

    A code that was never shown here is refused. With --unseen it is approved before anybody
    here has read the study; the center's log says so.

    Example: fedcox center approve 3f2a-91bc-0d44-5e67-8a90-b1c2-d3e4-f506
    """
    from fedcox.deployment.approval import Approvals, read_code
    from fedcox.deployment.center_folder import CenterFolder
    from fedcox.deployment.client import approve_unseen
    from fedcox.deployment.study_words import request_lines

    home = CenterFolder.read(folder)
    approvals, console = Approvals(home.pending, home.approved), Terminal(highlight=False)
    if code is None:
        waiting = approvals.waiting()
        for request in waiting:
            for line in request_lines(request, home):
                console.print(line, markup=False, soft_wrap=True)
            console.rule()
        if not waiting:
            console.print("No study waits for approval.")
        return
    given = read_code(code)
    known = approvals.find(given)
    if known is None and unseen and not decline:
        console.print(approve_unseen(home, given), markup=False, style="yellow")
        return
    approvals.decide(given, approve=not decline)
    name = "A study that was not shown here yet" if known is None else f"“{known.name}”"
    console.print(f"{name} is {'declined' if decline else 'approved'}.", markup=False)


def log(folder: CenterHome = Path("center")) -> None:
    """Show every reply that left this hospital: when, for which study, how protected.

    The file itself is FOLDER/ledger.jsonl, one reply a line.

    Example: fedcox center log
    """
    from fedcox.deployment.center_folder import CenterFolder
    from fedcox.files.followed import FollowedFile

    home, console = CenterFolder.read(folder), Terminal()
    ledger = FollowedFile(home.ledger, from_start=True)
    rows = ledger.rows()
    if ledger.unreadable:
        console.print(f"{ledger.unreadable} lines of {home.ledger} cannot be read.")
    if not rows:
        console.print("Nothing has left this hospital.")
        return
    table = Table(title=f"What left {home.name}", title_justify="left")
    for title in ("time", "study", "question"):
        table.add_column(title, no_wrap=title == "time")
    for title in ("numbers", "protection"):
        table.add_column(title, justify="right")
    noised = any(row["epsilon"] is not None for row in rows)
    if noised:
        table.add_column("epsilon", justify="right")
    for row in rows:
        epsilon = row["epsilon"]
        table.add_row(
            row["time"][:19].replace("T", " "),
            escape(row["study"]),
            row["question"],
            f"{row['numbers']:,}",
            row["protection"],
            *(["" if epsilon is None else f"{epsilon:g}"] if noised else []),
        )
    console.print(table)


center = typer.Typer(
    name="center",
    no_args_is_help=True,
    help="""Take part in studies; the patients stay here.

    Once: join, with the kit that the coordinator sent. Then start, for as long as studies
    run. Nothing is answered before the data manager has approved a study.
    """,
)
for command in (join, start, approve, log):
    center.command()(command)
