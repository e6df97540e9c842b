"""`fedcox coordinator run`: a study over the hospitals that are connected."""

from __future__ import annotations

import shlex
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedcox.cli.options import StudyFile, to_replace, to_write
from fedcox.cli.terminal import Terminal

if TYPE_CHECKING:
    from rich.console import Console

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
#: Seconds within which the processes of a study have started, as a rule.
_SLOW = 15.0
#: Seconds that a center may be slower than the others, where the study can do without it.
_GRACE = 30.0


Pings = Annotated[
    int,
    typer.Option(
        metavar="N",
        min=0,
        help="Empty rounds between those of the study, to see how long the line takes.",
    ),
]


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
    pings: Pings = 0,
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
    from fedcox.cli.fit import show
    from fedcox.deployment.coordinator_folder import CoordinatorFolder
    from fedcox.deployment.runs import begin, deliver, run_lock
    from fedcox.reports.run_folder import check_run_folder, read_run
    from fedcox.study.study import Study

    check_run_folder(out, overwrite=overwrite)
    home = CoordinatorFolder.read(folder)
    plan = Study.read(study).between_hospitals(len(home.centers))
    command = shlex.join(["fedcox", *sys.argv[1:]])
    with run_lock(home, plan):
        kept = begin(
            home,
            plan,
            command,
            resume=resume,
            overwrite=overwrite,
            wait=60.0 * wait,
            pings=pings,
        )
        _watch(home, plan, kept, 60.0 * wait)
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
    failure = kept.failure()
    if failure is not None:
        raise failure


def _follow(
    home: CoordinatorFolder,
    line: ServerSession,
    job: str,
    kept: RunFolder,
    shown: _RunTerminal,
) -> None:
    """Show the progress of a run until it ends."""
    from fedcox.deployment.runs import ended
    from fedcox.files.followed import FollowedFile

    progress, begun = FollowedFile(kept.progress), time.monotonic()
    looked = begun
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
    home: CoordinatorFolder, line: ServerSession, needed: int, wait: float, console: Console
) -> None:
    """Until all are there; for those that the study can do without, not for long."""
    from fedcox.errors import CentersMissingError

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

    def __init__(self, console: Console) -> None:
        self._console = console
        self._waiting: dict[str, str] = {}
        self._asked = 0
        self._silent = True

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
