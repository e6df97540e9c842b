"""A coordinator and three hospitals on this machine, run by the commands that people type.

Every command is a process of its own; fedcox itself is called only to find processes by their
folder and, where a drill is not about that, to say yes for a data manager.
"""

from __future__ import annotations

import json
import math
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import fedcox
from fedcox.deployment import jobs, processes, server
from fedcox.deployment.approval import Approvals, study_code
from fedcox.deployment.center_folder import CenterFolder
from fedcox.deployment.coordinator_folder import CoordinatorFolder
from fedcox.privacy.identity import Identity

FEDCOX = (sys.executable, "-m", "fedcox.cli.main")
NAMES = ("A", "B", "C", "D")
#: What hospitals get unless a study says otherwise: secure sums, and noise at its usual price.
PATIENTS = 600
NOISED = {"privacy__noise": f"patients = {PATIENTS}"}
EXACT = {"privacy": 'secure_sums = false\nnoise = "none"'}
#: Seconds that something may take on a busy machine; nothing waits that long when all is well.
PATIENCE = 300.0
_GLANCE = 0.005
#: Seconds that a center may take for a round, where a drill waits until it is over.
_SHORT = 30.0
_PASSWORD = re.compile(r"\b(\w+)\.kit\W+([a-z0-9]{4}(?:-[a-z0-9]{4}){4})\b")


class DrillError(Exception):
    """Something did not go as it must."""


@dataclass
class Started:
    """A command that was started and runs by itself; what it prints goes into a file."""

    process: subprocess.Popen[bytes]
    output: Path

    def ended(self) -> int:
        """Its exit status, once it has ended."""
        try:
            return self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired as error:
            raise DrillError(f"a command does not end:\n{self.printed()}") from error

    def printed(self) -> str:
        return self.output.read_text(encoding="utf-8", errors="replace")

    def until(self, event: str, found: Callable[[], Any]) -> Any:
        """What is waited for while the command runs; when it ends first, what it printed."""

        def looked() -> Any:
            over = self.process.poll()
            value = found()
            if not value and over is not None:
                raise DrillError(
                    f"the command ended with status {over} before {event}:\n{self.printed()}"
                )
            return value

        return waited(event, looked)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@dataclass
class Federation:
    """Folders below `folder`, and the commands that were started in them.

    Studies are under secure sums and noise, or, where they are to be `exact`, neither.
    """

    folder: Path
    exact: bool = False
    centers: dict[str, Started] = field(default_factory=dict)
    _options: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _environments: dict[str, Mapping[str, str]] = field(default_factory=dict)
    _logged: dict[str, int] = field(default_factory=dict)
    _number: int = 0
    _slowest: float = 0.0

    @property
    def short(self) -> float:
        """Seconds after which a center is lost: few, but more than one alive takes here now.

        A center's first reply imports and reads about as much as a command does.
        """
        return max(_SHORT, math.ceil(2.0 * self._slowest))

    @property
    def coordinator(self) -> Path:
        return self.folder / "coordinator"

    def center(self, name: str) -> Path:
        return self.folder / f"center-{name}"

    def data(self, name: str) -> Path:
        return self.folder / "patients" / f"hospital_{NAMES.index(name) + 1}.csv"

    def make(self, patients: int = PATIENTS) -> None:
        """Patients, the coordinator's folder, and each hospital's from its kit."""
        self.folder.mkdir(parents=True, exist_ok=True)
        options = ["--centers", str(len(NAMES)), "--patients", str(patients)]
        self.command("simulate", "patients", *options)
        centers = [word for name in NAMES for word in ("--center", name)]
        address = ["--host", "127.0.0.1", "--port", str(free_port())]
        told = self.command("coordinator", "init", "--name", "drill", *address, *centers)
        passwords = dict(_PASSWORD.findall(told))
        for name in NAMES:
            file = self.folder / f"password-{name}"
            file.write_text(passwords[name] + "\n", encoding="utf-8")
            kit = f"coordinator/kits/{name}.kit"
            where = ["--folder", f"center-{name}", "--password-file", file.name]
            self.command("center", "join", kit, *where)

    def command(self, *words: str, status: int = 0) -> str:
        """Run a command to its end, and give what it printed."""
        begun = time.monotonic()
        started = self.begin(*words)
        found = started.ended()
        self._slowest = max(self._slowest, time.monotonic() - begun)
        if found != status:
            raise DrillError(f"fedcox {' '.join(words)}: status {found}\n{started.printed()}")
        return started.printed()

    def begin(self, *words: str, environment: Mapping[str, str] | None = None) -> Started:
        """Start a command."""
        self._number += 1
        output = self.folder / f"printed-{self._number:03d}.txt"
        with output.open("wb") as stream:
            process = subprocess.Popen(
                [*FEDCOX, *words],
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                env={**os.environ, "COLUMNS": "120", **(environment or {})},
            )
        return Started(process, output)

    def start_server(self) -> None:
        self.command("coordinator", "start")

    def stop_server(self) -> None:
        self.command("coordinator", "stop")

    def start_center(
        self,
        name: str,
        *options: str,
        policy: str = "none",
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """`fedcox center start` in the background."""
        self._options[name] = ("--policy", policy, *options)
        self._environments[name] = environment or {}
        self.restart_center(name)

    def restart_center(self, name: str) -> None:
        """The same command again, as after a crash of the hospital's machine."""
        words = ["--folder", f"center-{name}", "--data", str(self.data(name))]
        self._logged[name] = self._log(name).stat().st_size if self._log(name).exists() else 0
        self.centers[name] = self.begin(
            "center",
            "start",
            *words,
            *self._options[name],
            environment=self._environments[name],
        )

    def wait_for_centers(self) -> None:
        """Until all that were started are connected, by the processes that run now."""
        for name, center in self.centers.items():
            center.until(f"{name} is registered", partial(self._registered, name))
        with jobs.session(CoordinatorFolder.read(self.coordinator)) as line:
            waited(
                "all centers are connected",
                lambda: line.connected() == sorted(self.centers),
                pause=0.5,
            )

    def _log(self, name: str) -> Path:
        return self.center(name) / "center.log"

    def _registered(self, name: str) -> bool:
        log = self._log(name)
        told = log.read_bytes()[self._logged[name] :] if log.exists() else b""
        return b"Successfully registered" in told

    def stop_center(self, name: str) -> None:
        """As Ctrl-C does."""
        started = self.centers.pop(name)
        started.process.send_signal(signal.SIGINT)
        started.ended()

    def make_whole(self) -> None:
        """Start what a drill left dead."""
        if server.running(CoordinatorFolder.read(self.coordinator)) is None:
            self.start_server()
        for name in NAMES:
            if name not in self.centers:
                self.start_center(name)

    def kill_center(self, name: str) -> None:
        """End every process of a hospital by kill -9, as when its machine loses power."""
        started = self.centers.pop(name)
        kill([started.process.pid, *self.center_pids(name)])
        started.process.wait()

    def kill_server(self) -> None:
        """End the server by kill -9, and the process of its study."""
        kill([process.pid for process in processes.belonging(self.coordinator / "server")])

    def center_pids(self, name: str) -> list[int]:
        return [process.pid for process in processes.belonging(self.center(name) / "flare")]

    def job_pids(self, name: str) -> list[int]:
        """The processes that answer a study at a center; there is one, or none."""
        found = processes.belonging(self.center(name) / "flare")
        return [each.pid for each in found if "fedcox.deployment.guarded_job" in each.cmdline()]

    def pids(self) -> set[int]:
        """Every process that belongs to these folders, and the commands in the background."""
        places = [self.coordinator / "server", *(self.center(name) / "flare" for name in NAMES)]
        found = {process.pid for place in places for process in processes.belonging(place)}
        return found | {
            each.process.pid for each in self.centers.values() if each.process.poll() is None
        }

    def study(self, name: str, **changes: str) -> Study:
        """The simulated study under a name of its own, with tables put in place of others.

        It names its pieces and the unit of its times: left to themselves, pieces are finer in
        one process than between hospitals, and units found by another question; here the two
        are compared.
        """
        protection = {} if "privacy" in changes else EXACT if self.exact else NOISED
        changes = {"grid": "width = 90\nhorizon = 1800", **protection, **changes}
        text = (self.folder / "patients" / "study.toml").read_text(encoding="utf-8")
        text = text.replace('"simulated hospitals"', f'"{name}"')
        text = text.replace('unit = "days"', 'unit = "days"\nresolution = 1')
        for table, content in changes.items():
            text = _replaced(text, table.replace("__", "."), content)
        file = self.folder / f"{name}.toml"
        file.write_text(text, encoding="utf-8")
        return Study(self, name, file)

    def code(self, study: Study) -> str:
        """By which all hospitals know the study, before anybody is asked."""
        identities = {
            name: Identity.load(self.center(name) / "identity.pem").public.to_text()
            for name in NAMES
        }
        plan = fedcox.Study.read(study.file).between_hospitals(len(NAMES))
        return study_code(plan, NAMES, identities)

    @contextmanager
    def running(self) -> Iterator[Federation]:
        """Whatever happens inside, no process is left behind."""
        try:
            yield self
        finally:
            for started in self.centers.values():
                if started.process.poll() is None:
                    started.kill()
            for place in [self.coordinator, *(self.center(name) for name in NAMES)]:
                kill([each.pid for each in processes.belonging(place / "flare")])
                kill([each.pid for each in processes.belonging(place / "server")])


@dataclass
class Study:
    """A study file in a federation, the command that runs it, and what became of it."""

    federation: Federation
    name: str
    file: Path
    timeout: float = math.inf  # seconds for a round, where the drill says so
    _run: Started | None = None

    @property
    def kept(self) -> Path:
        """What the coordinator keeps of the run."""
        return self.federation.coordinator / "runs" / self.name

    def run(self, out: str, *options: str) -> Started:
        """`fedcox coordinator run` in the background."""
        words = [self.file.name, "--out", out, *options]
        self._run = self.federation.begin("coordinator", "run", *words)
        return self._run

    def until(self, event: str, found: Callable[[], Any]) -> Any:
        """What is waited for while the study runs."""
        return (waited if self._run is None else self._run.until)(event, found)

    def approve_everywhere(self) -> None:
        """Every hospital says yes as soon as the study's code is known."""
        code = self.code()
        for name in NAMES:
            home = CenterFolder.read(self.federation.center(name))
            approvals = Approvals(home.pending, home.approved)
            approvals.decide(code, approve=True, unseen=True)

    def code(self) -> str:
        told = self.until(
            "the study has a code",
            lambda: [row for row in self.progress() if row["kind"] == "code"],
        )
        return str(told[-1]["code"])

    def progress(self) -> list[dict[str, Any]]:
        return rows(self.kept / "progress.jsonl")

    def exchanges(self) -> list[dict[str, Any]]:
        """Finished rounds of messages."""
        return [row for row in self.progress() if row["kind"] == "exchange"]

    def rounds(self) -> list[dict[str, Any]]:
        """The finished rounds in which questions were asked."""
        return [row for row in self.progress() if row.get("questions")]

    def left(self, center: str) -> list[dict[str, Any]]:
        """What left a hospital for this study, from the hospital's own ledger."""
        found = rows(self.federation.center(center) / "ledger.jsonl")
        return [row for row in found if row["study"] == self.name]

    def stopped(self, center: str, after: int) -> int:
        """Stop the process that answers at a center after so many rounds; its number."""
        pid: int = self.until(
            f"a process answers at {center}", lambda: self.federation.job_pids(center)
        )[0]
        self.rounds_finished(after)
        os.kill(pid, signal.SIGSTOP)
        return pid

    def rounds_finished(self, number: int) -> None:
        """Wait until so many rounds are finished."""
        self.until(f"{number} rounds are finished", lambda: len(self.rounds()) >= number)

    def held(self, center: str, after: int) -> int:
        """The same, and wait until a round is open: all others have answered it."""
        pid = self.stopped(center, after)
        others = [name for name in self.federation.centers if name != center]

        def others_wait() -> bool:
            here = len(self.left(center))
            finished = sum(len(row["questions"]) for row in self.rounds())
            if here > finished or self.exchanges()[-1]["step"] == "masked":
                # Stopped between writing its reply down and giving it, or before the sum of a
                # round was opened: a little further.
                os.kill(pid, signal.SIGCONT)
                time.sleep(0.01)
                os.kill(pid, signal.SIGSTOP)
                return False
            return all(len(self.left(name)) > here for name in others)

        self.until(f"all but {center} have answered", others_wait)
        if (self.kept / "result").exists():
            raise DrillError("the study was over before its round could be held open")
        return pid

    def fitted(self, out: str, centers: Sequence[str] = NAMES) -> dict[str, Any]:
        """The same study over the same files in one process: `fedcox fit`."""
        given = [
            word
            for name in centers
            for word in ("--center", f"{name}={self.federation.data(name)}")
        ]
        self.federation.command("fit", self.file.name, *given, "--out", out)
        return self.result(out)

    def result(self, out: str) -> dict[str, Any]:
        """The numbers of fit.json.

        Not the c-index, for which patients of all hospitals must be in one place, and not
        which command was typed where, by which version.
        """
        file = self.federation.folder / out / "fit.json"
        told: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        return {
            key: value
            for key, value in told.items()
            if key not in ("concordance", "versions", "command", "deployed")
        }


def waited(event: str, found: Callable[[], Any], pause: float = _GLANCE) -> Any:
    """What is waited for, as soon as it is there."""
    end = time.monotonic() + PATIENCE
    while not (value := found()):
        if time.monotonic() > end:
            raise DrillError(f"this did not happen within {PATIENCE:g} seconds: {event}")
        time.sleep(pause)
    return value


def rows(file: Path) -> list[dict[str, Any]]:
    """The whole lines of a file that may be growing."""
    if not file.exists():
        return []
    text = file.read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


def kill(pids: Sequence[int]) -> None:
    """End processes by kill -9; gone by itself is as good."""
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def free_port() -> int:
    """A port of this machine that nobody uses."""
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        port: int = trial.getsockname()[1]
    return port


def _replaced(text: str, table: str, content: str) -> str:
    """A study file with a table put in the place of the one of that name, or at its end."""
    kept = re.sub(rf"^\[{re.escape(table)}\]\n(?:(?!\[).*\n?)*", "", text, flags=re.MULTILINE)
    return f"{kept.rstrip()}\n\n[{table}]\n{content.strip()}\n"
