"""Which processes belong to a folder, and how they start and end.

The engine's processes start others, one per job, in sessions of their own. All are found by
the workspace that stands in their command lines, so that none is left behind and nobody
else's is touched.

`python -m fedcox.deployment.processes MODULE ARGUMENT…` runs MODULE as `python -m MODULE`
would, and ends it, and what it started, as soon as the pipe at its standard input is closed.
The system closes it when the starter ends, however that ends: a hospital that stops
`fedcox center start` by force has no process left that answers questions.
"""

from __future__ import annotations

import json
import os
import re
import runpy
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any

from fedcox.deployment.extras import flare_module
from fedcox.deployment.private_files import lock, write_private_json
from fedcox.errors import DeploymentError
from fedcox.files.writing import owners_folder

_MODULES = (
    "nvflare.private.fed.app.",
    "fedcox.deployment.guard",
    "fedcox.deployment.guarded_job",
)
_TEMPORARY = "temporary"
_JOB = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
#: Seconds between two looks at whether something has happened.
GLANCE = 0.05
#: Seconds after which a process that was asked to end is ended by force.
_PATIENCE = 5.0
_LARGEST_LOG = 10_000_000


@dataclass(frozen=True)
class Running:
    """A process of ours that runs, and since when (seconds since 1970)."""

    pid: int
    started: float


def is_job_number(text: object) -> bool:
    """Whether the engine would give a job this number, which is its folder's name too."""
    return isinstance(text, str) and _JOB.fullmatch(text) is not None


def start(
    arguments: Sequence[str], *, workspace: Path, log: Path, tied: bool = False
) -> subprocess.Popen[bytes]:
    """Start `python -m ARGUMENTS…`, in a session of its own, whatever it prints into `log`.

    `tied`: it ends as soon as this process does. Otherwise it runs on by itself.
    """
    _tidy(workspace)
    words = ["fedcox.deployment.processes", *arguments] if tied else list(arguments)
    with _log(log) as output:
        return subprocess.Popen(
            [sys.executable, "-m", *words],
            stdin=subprocess.PIPE if tied else subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=workspace,
            env=_environment(workspace),
            start_new_session=True,
            umask=0o077,
        )


def belonging(workspace: Path) -> list[Any]:
    """The engine's processes of one workspace, the job processes included."""
    psutil = flare_module("psutil")
    place = str(workspace.resolve())
    ours = []
    for process in psutil.process_iter(["cmdline", "uids"]):
        words = process.info["cmdline"] or []
        owner = process.info["uids"]
        if owner is not None and owner.real == os.getuid() and _is_of(words, place):
            ours.append(process)
    return ours


def end(workspace: Path) -> None:
    """End every process of a workspace, by force where asking does not help."""
    deadline = time.monotonic() + _PATIENCE
    asked: set[int] = set()
    while left := belonging(workspace):
        by_force = time.monotonic() > deadline
        if time.monotonic() > deadline + _PATIENCE:
            raise DeploymentError(
                "Some processes cannot be ended.",
                [f"Process {process.pid}: end it by hand." for process in left],
            )
        for process in left:
            if by_force or process.pid not in asked:
                _signal(process.pid, signal.SIGKILL if by_force else signal.SIGTERM)
                asked.add(process.pid)
        time.sleep(GLANCE)


def record(path: Path, pid: int) -> None:
    """Write down that a process runs, so that later commands find it."""
    started = flare_module("psutil").Process(pid).create_time()
    write_private_json(path, {"pid": pid, "started": started})


def recorded(path: Path) -> Running | None:
    """The process that was written down, if it still runs; a number used again is not it."""
    psutil = flare_module("psutil")
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
        running = Running(int(known["pid"]), float(known["started"]))
        process = psutil.Process(running.pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        return running if process.create_time() == running.started else None
    except (OSError, ValueError, KeyError, TypeError, psutil.Error):
        return None


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Only one command at a time may start something in a folder."""
    refusal = DeploymentError(
        f"Something is being started in {folder} at this moment.",
        ["Wait until that command has ended, and try again."],
    )
    with lock(folder / ".starting", refusal):
        yield


@contextmanager
def ended_in_order() -> Iterator[None]:
    """While inside, being asked to end (SIGTERM, or a closed terminal) is like Ctrl-C."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in _ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


_ENDING = (signal.SIGTERM, signal.SIGHUP)


def _is_of(words: Sequence[str], place: str) -> bool:
    return ("-m", place) in pairwise(words) and any(word.startswith(_MODULES) for word in words)


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def _tidy(workspace: Path) -> None:
    """Remove what earlier jobs left of the engine's own; results and ledgers are elsewhere."""
    for path in workspace.iterdir():
        if path.is_dir() and (path.name == _TEMPORARY or is_job_number(path.name)):
            shutil.rmtree(path)
    owners_folder(workspace / _TEMPORARY)


def _environment(workspace: Path) -> dict[str, str]:
    """What the processes see of this one's environment, and what protects the patients."""
    # A user's settings for other work: warnings as errors, say, would stop the engine.
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("NVFLARE_") and name != "PYTHONWARNINGS"
    }
    return inherited | {
        # Exceptions are told by their type: their texts may hold patients' values.
        "NVFLARE_SECURE_LOGGING": "1",
        # A center that is gone does not keep a finished job open.
        "NVFLARE_CLIENT_OUTCOME_WAIT_TIMEOUT": "3",
        # Nothing is imported from the folder that a process happens to run in.
        "PYTHONSAFEPATH": "1",
        "PYTHONUNBUFFERED": "1",
        "TMPDIR": str(workspace / _TEMPORARY),
    }


@contextmanager
def _log(path: Path) -> Iterator[int]:
    """A file that only its owner reads; the one before is kept when it has grown large."""
    if path.exists() and path.stat().st_size > _LARGEST_LOG:
        path.replace(path.with_name(f"{path.name}.before"))
    number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        yield number
    finally:
        os.close(number)


def _end_with_the_starter() -> None:
    while os.read(0, 1):
        pass
    _end_children()
    os._exit(1)


def _end_children() -> None:
    import psutil

    for child in psutil.Process().children(recursive=True):
        try:
            child.kill()
        except psutil.NoSuchProcess:
            continue


def main() -> None:
    """Run the module named first, tied to whoever holds the other end of the input."""
    threading.Thread(target=_end_with_the_starter, daemon=True).start()
    sys.argv = sys.argv[1:]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
