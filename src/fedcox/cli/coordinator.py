"""`fedcox coordinator …`: the one machine that hospitals connect to, and studies over them."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from fedcox.cli.fit import show
from fedcox.cli.options import StudyFile, to_replace, to_write
from fedcox.cli.terminal import Terminal, command_given, folder_option, say, spinner
from fedcox.errors import CentersMissingError

if TYPE_CHECKING:
    from fedcox.deployment.coordinator_folder import CoordinatorFolder
    from fedcox.deployment.jobs import ServerSession
    from fedcox.deployment.runs import RunFolder
    from fedcox.study.study import Study


CoordinatorHome = Annotated[
    Path, typer.Option("--folder", metavar="FOLDER", help="The coordinator's folder.")
]
_PAUSE = 0.2
#: Seconds between looks at the server, where the run itself says nothing.
_LOOK = 3.0
#: Within which the processes of a study have started, as a rule.
_SLOW = 15.0
#: Seconds that a center may be slower than the others, where the study can do without it.
_GRACE = 30.0


def _show_kits(folder: Path, passwords: dict[str, str]) -> CoordinatorFolder:
    """One line per kit: for whom, where it lies, what opens it; the folder as it is now."""
    from fedcox.deployment.coordinator_folder import CoordinatorFolder

    made = CoordinatorFolder.read(folder)
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
    return made


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
        list[str], typer.Option("--center", metavar="NAME", help="A hospital; repeat for each.")
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
    from fedcox.deployment.coordinator_folder import check_init, make_folder

    participants = check_init(
        folder, project=name, host=host, port=port, centers=center, days=days
    )
    passwords = make_folder(folder, participants, days=days, now=datetime.now(UTC))
    made = _show_kits(folder, passwords)
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


def start(folder: CoordinatorHome = Path("coordinator")) -> None:
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
    say(f"Who is connected: fedcox coordinator status{folder_option(folder, 'coordinator')}")


def status(folder: CoordinatorHome = Path("coordinator")) -> None:
    """Show whether the server runs and which centers are connected to it.

    A center that ends is shown as connected for ten seconds more.
    Exit status 1 where the server does not run.

    Example: fedcox coordinator status
    """
    from fedcox.deployment import jobs, server
    from fedcox.deployment.coordinator_folder import CoordinatorFolder

    project = CoordinatorFolder.read(folder)
    console, running = Terminal(), server.running(project)
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


def stop(folder: CoordinatorHome = Path("coordinator")) -> None:
    """Stop the server and every study that runs on it; finished rounds are kept.

    Centers stay where they are and connect again when the server is back.

    Example: fedcox coordinator stop
    """
    from fedcox.deployment import server
    from fedcox.deployment.coordinator_folder import CoordinatorFolder

    stopped = server.stop(CoordinatorFolder.read(folder))
    say("The server has stopped." if stopped else "The server was not running.")


def add_center(
    name: Annotated[list[str], typer.Argument(metavar="NAME", help="The hospital to add.")],
    folder: CoordinatorHome = Path("coordinator"),
) -> None:
    """Make a start-up kit for a hospital that joins later.

    It is signed by the same authority and ends with the others; the server need not be
    restarted, and the kits of the others stay good.

    Example: fedcox coordinator add-center D
    """
    from fedcox.deployment import coordinator_folder as folders

    home = folders.CoordinatorFolder.read(folder)
    passwords = folders.add_centers(home, name, now=datetime.now(UTC))
    made = _show_kits(folder, passwords)
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
    from fedcox.deployment import coordinator_folder as folders

    home = folders.CoordinatorFolder.read(folder)
    passwords = folders.renew(home, days=days, now=datetime.now(UTC))
    made = _show_kits(folder, passwords)
    say(f"Every certificate now ends on {made.expires}. Restart the server.")


# A study over the hospitals that are connected.


def run(
    study: StudyFile,
    out: Annotated[Path, to_write("RUN")],
    folder: CoordinatorHome = Path("coordinator"),
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with a run that was broken off.")
    ] = False,
    overwrite: Annotated[bool, to_replace("a run")] = False,
    wait: Annotated[
        float,
        typer.Option(
            metavar="MINUTES", help="How long to wait for hospitals to connect and approve."
        ),
    ] = 60.0,
    pings: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=0,
            help="Empty rounds between those of the study, to see how long the line takes.",
        ),
    ] = 0,
) -> None:
    """Run a study over the hospitals and write RUN/ as `fedcox fit` does.

    Between hospitals sums are secure and under noise unless the study says otherwise; what it
    would cost and could find, `fedcox plan` says before anybody is asked.

    The server must run (`fedcox coordinator start`). Hospitals that are not connected are
    waited for, and each must approve the study once. After a crash of this machine, of the
    server or of a hospital, say the same with --resume: rounds that were finished are not
    asked again.

    Example: fedcox coordinator run study.toml --out run
    """
    from fedcox.deployment.coordinator_folder import CoordinatorFolder
    from fedcox.deployment.runs import begin, deliver, run_lock
    from fedcox.reports.run_folder import check_run_folder, read_run
    from fedcox.study.study import Study

    check_run_folder(out, overwrite=overwrite)
    home = CoordinatorFolder.read(folder)
    plan = Study.read(study).between_hospitals(len(home.centers))
    command, seconds = command_given(), 60.0 * wait
    with run_lock(home, plan):
        kept = begin(
            home, plan, command, resume=resume, overwrite=overwrite, wait=seconds, pings=pings
        )
        _watch(home, plan, kept, seconds)
        deliver(kept, out, overwrite=overwrite)
    show(read_run(out), out / "report.html")


def _watch(home: CoordinatorFolder, plan: Study, kept: RunFolder, wait: float) -> None:
    """Bring the study to the server, show how it goes, and raise why it stopped."""
    from fedcox.deployment import jobs
    from fedcox.deployment.runs import needed_centers

    console = Terminal(stderr=True, highlight=False, soft_wrap=True)
    needed = needed_centers(home, plan)
    with jobs.session(home) as line:
        _wait_for_centers(home, line, needed, wait, console)
        job = line.submit(kept.path.name, needed)
        try:
            _follow(home, line, job, kept, _RunTerminal(console))
        except KeyboardInterrupt:
            kept.ask_to_stop()
            line.abort(job)
            console.print("Stopped. Say the same with --resume to go on from the last round.")
            raise typer.Exit(130) from None
    if (failure := kept.failure()) is not None:
        raise failure


def _follow(
    home: CoordinatorFolder, line: ServerSession, job: str, kept: RunFolder, shown: _RunTerminal
) -> None:
    """Show the progress of a run until it ends."""
    from fedcox.deployment.runs import ended
    from fedcox.files.followed import FollowedFile

    progress = FollowedFile(kept.progress)
    begun = looked = time.monotonic()
    while True:
        events = progress.rows()
        for event in events:
            shown.line(event)
        if events and events[-1]["kind"] in ("done", "failed"):
            return
        if not events and time.monotonic() > looked + _LOOK:
            looked = time.monotonic()
            if looked > begun + _SLOW:
                shown.nothing_yet()
            if ended(home, line, job, kept):
                return
        time.sleep(_PAUSE)


def _wait_for_centers(
    home: CoordinatorFolder, line: ServerSession, needed: int, wait: float, console: Terminal
) -> None:
    """Until all are there; for those that the study can do without, not for long."""
    begun, shown = time.monotonic(), None
    while True:
        connected = line.connected()
        missing = [name for name in home.centers if name not in connected]
        enough, waited = len(connected) >= needed, time.monotonic() - begun
        if connected != shown:
            console.print(f"Connected: {', '.join(connected) or 'nobody yet'}.")
            if missing:
                console.print(f"Waiting for {', '.join(missing)}.")
            shown = connected
        if not missing or (enough and waited > min(wait, _GRACE)):
            return
        if waited > wait:
            raise CentersMissingError(
                f"{len(connected)} centers are connected, and the study needs {needed}.",
                [f"{name} is not connected." for name in missing],
            )
        time.sleep(1.0)


class _RunTerminal:
    """The progress of a run as lines on a terminal."""

    def __init__(self, console: Terminal) -> None:
        self._console, self._asked, self._silent = console, 0, True
        self._waiting: dict[str, str] = {}

    def line(self, event: dict[str, Any]) -> None:
        self._silent = False
        if event["kind"] == "code":
            self._console.print(f"The code by which hospitals approve it: {event['code']}")
        elif event["kind"] == "waiting":
            for name, reason in sorted(event["reasons"].items()):
                if self._waiting.get(name) != reason:
                    self._console.print(f"Waiting for {name}: {reason}.", markup=False)
            self._waiting = event["reasons"]
        elif event["kind"] == "without":
            for name, reason in sorted(event["reasons"].items()):
                self._console.print(f"{name} takes no part: {reason}.", style="yellow")
        elif event["kind"] == "exchange":
            self._exchange(event)

    def nothing_yet(self) -> None:
        """No word so far: a center's process has two minutes to start."""
        if self._silent:
            self._silent = False
            self._console.print("Waiting for the centers to start the study.")

    def _exchange(self, event: dict[str, Any]) -> None:
        # Who waits, and who takes no part, is told as such.
        if event["step"] not in ("hello", "study"):
            for name, reason in sorted(event["lost"].items()):
                self._console.print(f"{name} is lost: {reason}.", style="yellow")
        slowest = max(event["seconds"].values(), default=0.0)
        if event["step"] == "ping":
            self._console.print(f"Empty round: all answered in {slowest:.3f} s.")
        if not event["questions"]:
            return
        self._asked += 1
        answered = sorted(set(event["seconds"]) - set(event["lost"]))
        self._console.print(
            f"Round {self._asked}, {', '.join(event['questions'])}: {', '.join(answered)} "
            f"answered in {slowest:.2f} s.",
            markup=False,
        )


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
