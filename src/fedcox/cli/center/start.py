"""`fedcox center start`: take part in studies for as long as this runs."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from fedcox.deployment.approval import Approvals, Request
    from fedcox.deployment.center_folder import CenterFolder, CenterSettings

_PAUSE = 0.5

CenterHome = Annotated[
    Path, typer.Option("--folder", metavar="FOLDER", help="This center's folder.")
]


def start(
    data: Annotated[
        Path,
        typer.Option(
            "--data", metavar="FILE", help="This hospital's patients: CSV or Parquet."
        ),
    ],
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
    budget: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Where these patients are in studies of several coordinators: the one file of "
            "what all of them spend. Kept from then on; else FOLDER/budget.jsonl.",
        ),
    ] = None,
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
    from fedcox.cli.terminal import Terminal
    from fedcox.deployment.approval import Approvals
    from fedcox.deployment.center_folder import CenterFolder
    from fedcox.deployment.client import prepare

    home = CenterFolder.read(folder)
    console = Terminal(highlight=False, soft_wrap=True)
    # Before anything is approved: it shows what is written to the center's log from here on.
    watched = _Watched(home, Approvals(home.pending, home.approved), console, folder)
    settings = prepare(home, data, policy, approve or [], unseen=unseen, budget=budget)
    _greet(home, console)
    _attend(home, settings, watched, console)


def _greet(home: CenterFolder, console: Console) -> None:
    """Whether the coordinator is there, and how long this center's kit is valid."""
    from fedcox.deployment import client
    from fedcox.deployment.client import validity

    away = client.why_not_connected(home)
    console.print(
        f"{home.name} connects to {home.host}:{home.port}. Ctrl-C ends it."
        if away is None
        else f"{home.name} waits for the coordinator: {away}. It is tried again until Ctrl-C."
    )
    console.print(validity(home))


def _attend(
    home: CenterFolder, settings: CenterSettings, watched: _Watched, console: Console
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


class _Watched:
    """What happens at a center, as lines on its terminal."""

    def __init__(
        self, home: CenterFolder, approvals: Approvals, console: Console, folder: Path
    ) -> None:
        from fedcox.cli.folder_option import folder_option
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
