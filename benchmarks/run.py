"""`python -m benchmarks.run`: every contender on every problem, one after the other."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)

from benchmarks.child_process import ProgramError, run_module
from benchmarks.contenders import CONTENDERS
from benchmarks.headlines import headlines
from benchmarks.machine import describe_machine
from benchmarks.patients import write_patients
from benchmarks.problems import PROBLEMS, Problem
from benchmarks.reference import Model, Optimum
from benchmarks.results import Result, best_of_repeats, read_results
from benchmarks.secure_sums import run_secure_sums
from benchmarks.start_up import run_start_up
from benchmarks.tables import Table, headline_table, label_of, problem_table

RESULTS = Path("bench-results")
_REFERENCE_SECONDS = 1800.0
#: Contenders whose best run is shorter than this get so many times the turns.
_SHORT_SECONDS, _MORE_TURNS = 2.0, 3
_BAR = (
    SpinnerColumn(),
    TextColumn("{task.description}"),
    BarColumn(),
    MofNCompleteColumn(),
    TimeElapsedColumn(),
)

Announce = Callable[[str], None]


def run_problem(
    problem: Problem, directory: Path, *, quick: bool, limit_seconds: float, announce: Announce
) -> Iterator[Result]:
    """Run a problem's contenders, each in a new process, and yield one result per run.

    They run in turns: a machine that slows down for a minute slows all of them. Long runs meet
    good and bad moments alike; short ones need more turns to meet a good one.
    """
    announce("simulating patients")
    folder = write_patients(problem, directory)
    left_out = {name: CONTENDERS[name].unavailable() for name in problem.contenders}
    optimum: dict[str, Optimum | None] = {}
    for name in problem.contenders:
        if left_out[name] is None:
            announce(f"reference for {label_of(name)}")
            optimum[name] = _reference(CONTENDERS[name].reference(problem), problem, folder)
    fastest: dict[str, float] = {}
    for repeat in range(1, _MORE_TURNS * problem.repeats + 1):
        for name in problem.contenders:
            if repeat > problem.repeats and fastest.get(name, np.inf) > _SHORT_SECONDS:
                continue
            announce(label_of(name))
            result = Result(
                problem.name,
                name,
                repeat,
                problem.repeats,
                quick,
                left_out=left_out[name],
                threads=CONTENDERS[name].threads,
            )
            if left_out[name] is None:
                result = _run_once(result, folder, optimum[name], limit_seconds)
                # What failed or took too long once is not tried again.
                left_out[name] = result.left_out
            if result.cpu_seconds is not None:
                fastest[name] = min(result.cpu_seconds, fastest.get(name, np.inf))
            yield result


def _run_once(
    result: Result, folder: Path, optimum: Optimum | None, limit_seconds: float
) -> Result:
    arguments = [str(folder), result.problem, result.contender]
    if result.quick:
        arguments.append("--quick")
    try:
        printed = run_module("benchmarks.measure", *arguments, limit_seconds=limit_seconds)
    except ProgramError as error:
        return replace(result, left_out=str(error))
    found: dict[str, Any] = json.loads(printed.splitlines()[-1])
    return replace(
        result,
        **found["measurement"],
        rounds=found["rounds"],
        bytes_up=found["bytes_up"],
        bytes_down=found["bytes_down"],
        coefficient_difference=_difference(found["coefficients"], optimum),
        standard_error_difference=_relative_difference(found["standard_errors"], optimum),
        concordance=found["concordance"],
        versions=found["versions"],
    )


def _reference(model: Model | None, problem: Problem, folder: Path) -> Optimum | None:
    """Compute the optimum once per problem and model, in a process of its own."""
    if model is None:
        return None
    file = folder / f"{model}-{0 if model == 'cox' else problem.intervals}.npz"
    if not file.exists():
        width = [] if problem.width is None else ["--width", str(problem.width)]
        run_module(
            "benchmarks.reference",
            str(folder),
            model,
            str(file),
            *width,
            limit_seconds=_REFERENCE_SECONDS,
        )
    return Optimum.read(file)


def _difference(coefficients: list[float] | None, optimum: Optimum | None) -> float | None:
    if coefficients is None or optimum is None:
        return None
    return float(np.abs(np.array(coefficients) - optimum.coefficients).max())


def _relative_difference(errors: list[float] | None, optimum: Optimum | None) -> float | None:
    if errors is None or optimum is None:
        return None
    return float(np.abs(np.array(errors) / optimum.standard_errors - 1).max())


def run_all(
    problems: Sequence[Problem],
    out: Path,
    *,
    quick: bool,
    limit_seconds: float,
    console: Console,
) -> list[Result]:
    """Run the problems with a progress bar, and write each result as soon as it is there."""
    out.parent.mkdir(parents=True, exist_ok=True)
    machine = describe_machine()
    results: list[Result] = []
    with (
        tempfile.TemporaryDirectory(prefix="benchmark-") as directory,
        out.open("w", encoding="utf-8") as lines,
        Progress(*_BAR, console=console) as progress,
    ):
        runs = sum(len(problem.contenders) * problem.repeats for problem in problems)
        bar = progress.add_task("", total=runs)
        for problem in problems:
            announce = partial(_announce, progress, bar, problem)
            if problem.task == "imports":
                announce("whole processes")
                found = run_start_up(problem, quick=quick)
            elif problem.task == "secure_sum":
                announce("all parties in one process")
                found = run_secure_sums(problem, quick=quick, limit_seconds=limit_seconds)
            else:
                found = run_problem(
                    problem,
                    Path(directory),
                    quick=quick,
                    limit_seconds=limit_seconds,
                    announce=announce,
                )
            for result in found:
                results.append(replace(result, machine=machine))
                lines.write(results[-1].to_line() + "\n")
                lines.flush()
                progress.update(bar, advance=1, total=max(runs, len(results)))
    return results


def _announce(progress: Progress, bar: TaskID, problem: Problem, step: str) -> None:
    progress.update(bar, description=f"{problem.name} · {step}")


def tables_of(results: Sequence[Result]) -> list[Table]:
    """One table per problem that was run, then the targets."""
    best = best_of_repeats(results)
    names = dict.fromkeys(result.problem for result in results)
    tables = [problem_table(PROBLEMS[name], best) for name in names]
    return [
        *tables,
        headline_table(headlines(best), quick=any(result.quick for result in results)),
    ]


def provenance(results: Sequence[Result]) -> str:
    """Say where the numbers come from: processor, versions, threads."""
    versions = {name: text for result in results for name, text in result.versions.items()}
    machines = dict.fromkeys(result.machine for result in results)
    libraries = "".join(f", {name} {text}" for name, text in sorted(versions.items()))
    return f"One thread where nothing else is said, {' and '.join(machines)}{libraries}."


def _newest_results() -> Path:
    files = sorted(RESULTS.glob("*.jsonl"), key=lambda file: file.stat().st_mtime)
    if not files:
        raise SystemExit(f"There is no .jsonl file in {RESULTS}/; run the benchmark first.")
    return files[-1]


def _chosen(names: str | None, contenders: str | None, *, quick: bool) -> list[Problem]:
    wanted = list(PROBLEMS) if names is None else names.split(",")
    unknown = [name for name in wanted if name not in PROBLEMS]
    if unknown:
        raise SystemExit(
            f"Unknown problem {', '.join(unknown)}; there are {', '.join(PROBLEMS)}."
        )
    problems = [PROBLEMS[name].quick() if quick else PROBLEMS[name] for name in wanted]
    if contenders is None:
        return problems
    entrants = set(contenders.split(","))
    return [
        replace(
            problem, contenders=tuple(name for name in problem.contenders if name in entrants)
        )
        for problem in problems
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark, or print a stored run as Markdown."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=main.__doc__)
    parser.add_argument("--problems", help=f"comma-separated, of: {', '.join(PROBLEMS)}")
    parser.add_argument("--contenders", help=f"comma-separated, of: {', '.join(CONTENDERS)}")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: does everything run?")
    parser.add_argument(
        "--out", type=Path, help=f"JSON lines; default: a new file in {RESULTS}/"
    )
    parser.add_argument("--limit", type=float, default=900.0, help="seconds allowed per run")
    parser.add_argument(
        "--markdown",
        nargs="?",
        type=Path,
        const=Path(),
        metavar="FILE",
        help="print a stored run (default: the newest) as Markdown, and run nothing",
    )
    given = parser.parse_args(arguments)
    # A file or a pipe has no width of its own, and the tables are wide.
    console = Console(width=None if sys.stdout.isatty() else 150)
    if given.markdown is not None:
        file = _newest_results() if given.markdown == Path() else given.markdown
        results = read_results(file)
        print("\n".join(table.markdown() for table in tables_of(results)))
        print(provenance(results))
        return 0
    out = given.out or RESULTS / f"{datetime.now():%Y-%m-%d-%H%M%S}.jsonl"
    problems = _chosen(given.problems, given.contenders, quick=given.quick)
    results = run_all(
        problems, out, quick=given.quick, limit_seconds=given.limit, console=console
    )
    for table in tables_of(results):
        table.show(console)
    console.print(f"{provenance(results)} Written to {out}.", highlight=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
