"""How long until the program is there: whole processes, interpreter included."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.child_process import ProgramError, run_program
from benchmarks.problems import Problem
from benchmarks.results import Result

_COMMANDS: dict[str, Sequence[str]] = {
    "import numpy": (sys.executable, "-c", "import numpy"),
    "import fedcox": (sys.executable, "-c", "import fedcox"),
    "fedcox --help": (str(Path(sys.executable).with_name("fedcox")), "--help"),
}


def run_start_up(problem: Problem, *, quick: bool) -> Iterator[Result]:
    """Time each command `repeats` times, in turns, after a turn that warms the disk's cache."""
    for repeat in range(problem.repeats + 1):
        for name in problem.contenders:
            result = Result(problem.name, name, repeat, problem.repeats, quick)
            try:
                seconds = _wall_seconds(_COMMANDS[name])
            except (ProgramError, OSError) as error:
                result = replace(result, left_out=str(error))
            else:
                result = replace(result, seconds=seconds)
            if repeat > 0:
                yield result


def _wall_seconds(command: Sequence[str]) -> float:
    start = time.perf_counter()
    run_program(command, limit_seconds=60)
    return time.perf_counter() - start
