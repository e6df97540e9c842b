"""How a run of a study begins, goes on after a crash, and is handed over."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from fedcox.deployment.run_folder import RunFolder
from fedcox.errors import CentersMissingError, DeploymentError, InputError, OutputError
from fedcox.files.locks import locked
from fedcox.files.writing import whole_folder, write_atomically
from fedcox.reports.run_folder import check_run_folder
from fedcox.study.study import Study

if TYPE_CHECKING:
    from fedcox.deployment.coordinator_folder import CoordinatorFolder
    from fedcox.deployment.jobs import Session


#: Seconds that a job which was broken off has to end.
_PATIENCE = 30.0


@contextmanager
def attended(home: CoordinatorFolder, study: Study) -> Iterator[None]:
    """One command at a time for the runs of one name, from its beginning to its result."""
    home.runs.mkdir(mode=0o700, exist_ok=True)
    with locked(home.runs / f".{run_name(study)}.lock") as ours:
        if not ours:
            raise DeploymentError(
                f"Another `fedcox coordinator run` of “{study.name}” is at work.",
                ["Leave it to its work, or end it first with Ctrl-C in its window."],
            )
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


def ended(home: CoordinatorFolder, line: Session, job: str, run: RunFolder) -> bool:
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
    state = line.state(job)
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
