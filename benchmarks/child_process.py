"""How every timed program is started: alone, with one thread."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

_ONE_THREAD = dict.fromkeys(
    (
        "OPENBLAS_NUM_THREADS",
        "OMP_NUM_THREADS",
        "MKL_NUM_THREADS",
        "NUMEXPR_NUM_THREADS",
        "NUMBA_NUM_THREADS",
        "VECLIB_MAXIMUM_THREADS",
    ),
    "1",
)
_ROOT = Path(__file__).parent.parent


class ProgramError(RuntimeError):
    """The program failed or took too long; the text says which, in one line."""


def run_program(arguments: Sequence[str], *, limit_seconds: float) -> str:
    """Run a program to its end and return what it printed."""
    with subprocess.Popen(
        arguments,
        env=os.environ | _ONE_THREAD,
        cwd=_ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as program:
        try:
            printed, complaints = program.communicate(timeout=limit_seconds)
        except BaseException as error:
            # The whole group: a contender may have started a program of its own, as R's does.
            os.killpg(program.pid, signal.SIGKILL)
            if isinstance(error, subprocess.TimeoutExpired):
                raise ProgramError(f"stopped after {limit_seconds:g} s") from error
            raise
    if program.returncode != 0:
        last = (complaints.strip().splitlines() or ["no message"])[-1]
        raise ProgramError(f"failed: {last}")
    return printed


def run_module(module: str, *arguments: str, limit_seconds: float) -> str:
    """Run `python -m module` with this interpreter."""
    return run_program([sys.executable, "-m", module, *arguments], limit_seconds=limit_seconds)
