"""Which process works on a file at this moment, so that two do not do the same work."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fedcox.errors import OutputError
from fedcox.files.writing import remove_leftovers

_A_DAY = 86_400.0


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
    own = {
        "pid": os.getpid(),
        "started": _started(os.getpid()),
        "host": platform.node(),
        "time": time.time(),
    }
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        json.dump(own, file)
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
        told = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    return told.rpartition(")")[2].split()[19]
