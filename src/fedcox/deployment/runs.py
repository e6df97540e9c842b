"""A run of a study in the coordinator's folder: what it keeps, how it begins and ends."""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedcox.deployment.private_files import lock
from fedcox.errors import CentersMissingError, DeploymentError, InputError, OutputError
from fedcox.files.followed import append_rows
from fedcox.files.writing import whole_folder, write_atomically
from fedcox.reports.run_folder import check_run_folder
from fedcox.study.study import Study

if TYPE_CHECKING:
    from fedcox.deployment.coordinator_folder import CoordinatorFolder
    from fedcox.deployment.jobs import ServerSession


_IDENTITIES, _LEFT_OUT = "identities.json", "left_out.json"
_FOR_GOOD = (_IDENTITIES, _LEFT_OUT)
#: Seconds that a job which was broken off has to end.
_PATIENCE = 30.0


@dataclass(frozen=True)
class RunFolder:
    """The study as it runs, its progress, its finished rounds, and how it ended."""

    path: Path

    @property
    def study(self) -> Path:
        return self.path / "study.toml"

    @property
    def progress(self) -> Path:
        return self.path / "progress.jsonl"

    @property
    def checkpoint(self) -> Path:
        return self.path / "checkpoint"

    @property
    def result(self) -> Path:
        return self.path / "result"

    @property
    def error(self) -> Path:
        return self.path / "error.json"

    @property
    def settings(self) -> Path:
        return self.path / "settings.json"

    @property
    def stop(self) -> Path:
        return self.path / "stop"

    def tell(self, kind: str, **content: Any) -> None:
        """One line of progress, for whoever watches the run."""
        row = {"kind": kind, "at": time.time(), **content}
        append_rows(self.progress, [row], on_disk=False)

    def ask_to_stop(self) -> None:
        """Before the job is ended: centers whose processes end with it are not lost."""
        self.stop.touch()

    def fail(self, error: InputError) -> None:
        """Leave the reason why the run stopped."""
        record = {"subject": error.subject, "faults": list(error.faults)}
        write_atomically(self.error, json.dumps(record, ensure_ascii=False) + "\n")

    def failure(self) -> InputError | None:
        """Why the run stopped, if it left a reason."""
        if not self.error.exists():
            return None
        record = json.loads(self.error.read_text(encoding="utf-8"))
        return DeploymentError(record["subject"], record["faults"])

    def write_settings(self, settings: Mapping[str, Any]) -> None:
        """What the job's process needs to know besides the study."""
        write_atomically(self.settings, json.dumps(dict(settings)) + "\n")

    def read_settings(self) -> dict[str, Any]:
        settings: dict[str, Any] = json.loads(self.settings.read_text(encoding="utf-8"))
        return settings

    def identities(self) -> dict[str, str]:
        """Public identities of centers, as they were told in this run so far."""
        file = self.path / _IDENTITIES
        if not file.exists():
            return {}
        known: dict[str, str] = json.loads(file.read_text(encoding="utf-8"))
        return known

    def keep_identities(self, identities: Mapping[str, str]) -> None:
        """For when a center is away in a later job of the run."""
        write_atomically(self.path / _IDENTITIES, json.dumps(dict(identities)) + "\n")

    def left_out(self) -> tuple[str, ...]:
        """Centers without which masked sums of this run were opened."""
        file = self.path / _LEFT_OUT
        if not file.exists():
            return ()
        return tuple(json.loads(file.read_text(encoding="utf-8")))

    def leave_out(self, names: Iterable[str]) -> None:
        """Remember them: sums with and without a center would give it away."""
        known = sorted({*self.left_out(), *names})
        write_atomically(self.path / _LEFT_OUT, json.dumps(known) + "\n")

    def for_good(self) -> dict[str, str]:
        """What hospitals remember of the study, too, and no new run sets back; by file."""
        files = (self.path / name for name in _FOR_GOOD)
        return {file.name: file.read_text("utf-8") for file in files if file.exists()}

    def take_over(self, kept: Mapping[str, str]) -> None:
        """Go on from what an older run of the same study left."""
        for name, text in kept.items():
            write_atomically(self.path / name, text)

    @contextmanager
    def alone(self, patience: float) -> Iterator[None]:
        """One process at a time: that of a job that was broken off may still be ending."""
        refusal = DeploymentError(
            "An earlier job of this run is still at work.",
            ["Wait until it has ended, or stop the server and start it again."],
        )
        with lock(self.path, refusal, patience=patience):
            yield


@contextmanager
def run_lock(home: CoordinatorFolder, study: Study) -> Iterator[None]:
    """One command at a time for the runs of one name, from its beginning to its result."""
    home.runs.mkdir(mode=0o700, exist_ok=True)
    refusal = DeploymentError(
        f"Another `fedcox coordinator run` of “{study.name}” is at work.",
        ["Leave it to its work, or end it first with Ctrl-C in its window."],
    )
    with lock(home.runs / f".{run_name(study)}.lock", refusal):
        yield


def begin(
    home: CoordinatorFolder,
    study: Study,
    command: str,
    *,
    resume: bool,
    overwrite: bool,
    wait: float,
    pings: int = 0,
) -> RunFolder:
    """A folder for this run: a new one, or that of the run to go on with."""
    from fedcox.deployment import server

    if not server.running(home):
        raise DeploymentError(
            "The coordinator's server does not run.",
            ["Start it with: fedcox coordinator start", "Then hospitals can connect."],
        )
    needed_centers(home, study)
    run = RunFolder(home.runs / run_name(study))
    if resume:
        _check_same(run, study)
        with run.alone(_PATIENCE):  # else two jobs would write into one folder
            run.error.unlink(missing_ok=True)
            run.stop.unlink(missing_ok=True)
    else:
        kept = _clear(run, study, overwrite=overwrite)
        run.path.mkdir(mode=0o700, parents=True)
        write_atomically(run.study, study.source)
        run.take_over(kept)
    run.write_settings(
        {
            "centers": sorted(home.centers),
            "wait": wait,
            "command": command,
            "pings": pings,
        }
    )
    return run


def run_name(study: Study) -> str:
    """The study's name as the name of a folder."""
    return re.sub(r"[^a-z0-9]+", "-", study.name.lower()).strip("-") or "study"


def needed_centers(home: CoordinatorFolder, study: Study) -> int:
    """How many centers must answer; more than there are is told at once."""
    needed = study.attendance.among(len(home.centers))
    if needed > len(home.centers):
        raise CentersMissingError(
            f"The study needs {needed} centers, and {len(home.centers)} have kits.",
            ["Lower needed in its [attendance], or add centers."],
        )
    return needed


def ended(home: CoordinatorFolder, session: ServerSession, job: str, run: RunFolder) -> bool:
    """Whether the job is over without a last word of its own; then the reason is written."""
    from fedcox.deployment import server

    if not server.running(home):
        run.fail(
            DeploymentError(
                "The coordinator's server stopped during the run.",
                ["Start it with `fedcox coordinator start`, then run the study with --resume."],
            )
        )
        return True
    state = session.state(job)
    if state.name in ("submitted", "running"):
        return False
    if state.name == "failed" and run.failure() is None:
        run.fail(
            DeploymentError(
                f"The server could not run the study: {state.reason}.",
                ["When that is mended, run the study with --resume."],
            )
        )
    return True


def deliver(run: RunFolder, out: Path, *, overwrite: bool) -> None:
    """Copy the result to where it was asked for, whole or not at all."""
    if not run.result.is_dir():
        raise DeploymentError(
            "The run ended without a result.", ["Run the study again with --resume."]
        )
    check_run_folder(out, overwrite=overwrite)
    with whole_folder(out) as part:
        shutil.copytree(run.result, part, dirs_exist_ok=True)


def _check_same(run: RunFolder, study: Study) -> None:
    if not run.study.exists():
        raise DeploymentError(
            f"There is no run of “{study.name}” to go on with.", ["Leave --resume out."]
        )
    if Study.read(run.study) != study:
        raise DeploymentError(
            f"The run of “{study.name}” that was broken off is of another study file.",
            [
                "Give the file it began with; a copy is in "
                f"{run.study}. Or begin anew with --overwrite."
            ],
        )


def _clear(run: RunFolder, study: Study, *, overwrite: bool) -> dict[str, str]:
    """Make room for a new run; what of an older one of the same study holds on, by file."""
    if not run.path.exists():
        return {}
    same = _is_of(run, study)
    if not overwrite:
        finished = run.result.is_dir()
        raise OutputError(
            f"There is a {'finished' if finished else 'broken-off'} run of this name: "
            f"{run.path}.",
            [
                "Say --overwrite to begin anew."
                if finished
                else "Say --resume to go on with it, or --overwrite to begin anew."
            ],
        )
    with run.alone(_PATIENCE):
        kept = run.for_good() if same else {}
        shutil.rmtree(run.path)
    return kept


def _is_of(run: RunFolder, study: Study) -> bool:
    """Whether the run is of this very study; that of another study is not to be replaced."""
    try:
        present = Study.read(run.study)
    except InputError:
        return False  # it did not get far enough to have a study
    if present.name != study.name:
        raise OutputError(
            f"{run.path} is a run of another study, “{present.name}”.",
            [f"Give “{study.name}” a name of other letters, or move that folder away."],
        )
    return present == study
