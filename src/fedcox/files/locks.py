"""One process at a time: locks, and claims of the files that several processes work off.

A lock is the system's, and gone with its process; machines that share a folder may not see each
other's. A claim is a file, which they do see.
"""

from __future__ import annotations

import json
import math
import os
import platform
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from fedcox.errors import OutputError
from fedcox.files.writing import OWNERS_FILE, remove_leftovers

_A_DAY = 86_400.0
_GLANCE = 0.2


@contextmanager
def locked(path: Path, *, patience: float = 0.0) -> Iterator[bool]:
    """Whether `path`, a file or a folder, is ours alone for as long as the block lasts.

    Others are waited for, up to `patience` seconds. A file that is missing is made.
    """
    flags = os.O_RDONLY if path.is_dir() else os.O_WRONLY | os.O_CREAT
    with ExitStack() as stack:
        try:
            handle = os.open(path, flags, OWNERS_FILE)
            stack.callback(os.close, handle)
            ours = take_lock(handle, patience=patience)
        except OSError as error:
            raise OutputError(
                f"Cannot lock {path}: {error.strerror or error}.",
                ["Choose a folder that you may write to, on a disk that can lock files."],
            ) from error
        yield ours


def take_lock(handle: int, *, patience: float = 0.0) -> bool:
    """Whether what is open is ours alone from now on, until it is closed; or OSError."""
    import fcntl  # where there is none, neither budgets nor deployments are

    if patience == math.inf:
        fcntl.flock(handle, fcntl.LOCK_EX)
        return True
    end = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= end:
                return False
            time.sleep(_GLANCE)
        else:
            return True


@contextmanager
def claimed(target: Path) -> Iterator[bool]:
    """Whether `target` is ours to write for as long as the block lasts.

    The claim of a process of this machine that has ended, or one older than a day, does not
    count. Two processes that find such a claim in the same moment may both go on: they write
    the same file, each whole.
    """
    claim = target.with_name(f"{target.name}.claim")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        ours = _take(claim)
    except OSError as error:
        raise OutputError(
            f"Cannot write in {target.parent}: {error.strerror or error}.",
            ["Choose a folder that you may write to."],
        ) from error
    if not ours:
        yield False
        return
    try:
        remove_leftovers(target)
        yield True
    finally:
        claim.unlink(missing_ok=True)


def _take(claim: Path) -> bool:
    if _create(claim):
        return True
    if not _expired(claim):
        return False
    claim.unlink(missing_ok=True)
    return _create(claim)


def _create(claim: Path) -> bool:
    try:
        handle = os.open(claim, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
    except FileExistsError:
        return False
    owner = {
        "pid": os.getpid(),
        "started": _started(os.getpid()),
        "host": platform.node(),
        "time": time.time(),
    }
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        json.dump(owner, file)
    return True


def _expired(claim: Path) -> bool:
    try:
        age = time.time() - claim.stat().st_mtime
        other = json.loads(claim.read_text(encoding="utf-8"))
        here = other["host"] == platform.node()
        pid, started = int(other["pid"]), other["started"]
    except FileNotFoundError:
        return True  # its owner has just finished
    except (ValueError, KeyError, TypeError):
        # Killed between making the claim and writing into it; or this very moment in between.
        return age > 60.0
    return age > _A_DAY or (here and not _alive(pid, started))


def _alive(pid: int, started: str) -> bool:
    """Whether that process runs; a number may meanwhile be another process's, even ours."""
    if pid == os.getpid():
        return False  # we hold no claim yet
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True  # somebody else's, and it runs
    return _started(pid) == started


def _started(pid: int) -> str:
    """When a process began, in the system's own words; empty where it does not tell."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    return fields.rpartition(")")[2].split()[19]
