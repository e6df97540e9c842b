"""`fedcox evaluate`: which learning scheme orders new patients best, on a study's files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedcox.cli.options import (
    CenterColumn,
    CenterFiles,
    DataFile,
    StudyFile,
    Workers,
    given_files,
    to_replace,
    to_write,
)
from fedcox.cli.terminal import Terminal, command_again, progress_bar, say, show_page

if TYPE_CHECKING:
    from fedcox.engines.in_process import InProcess
    from fedcox.evaluation.experiment import Experiment
    from fedcox.evaluation.result import Row
    from fedcox.study.study import Study


def run_with_progress(
    experiment: Experiment, file: Path, workers: int, *, what: str = "training"
) -> tuple[Row, ...]:
    """Run with a progress bar; Ctrl-C leaves what is there, and a line on how to go on."""
    from fedcox.evaluation.experiment import run_experiment

    done, total = 0, len(experiment.jobs())
    with progress_bar() as progress:
        task = progress.add_task(what, total=total)

        def watch(rows: int, of: int, row: Row | None) -> None:
            nonlocal done
            done = rows
            last = "" if row is None else f": {row.scheme}, {row.test_set}"
            progress.update(task, completed=rows, description=f"{what}{last}")

        try:
            return run_experiment(experiment, file, workers=workers, watch=watch)
        except KeyboardInterrupt:
            progress.stop()
            say(
                f"Stopped. {done:,} of {total:,} rows are kept; to go on: "
                f"{command_again('--resume')}",
                err=True,
            )
            raise typer.Exit(130) from None


Without = Annotated[
    list[str] | None,
    typer.Option(metavar="CENTER", help="Leave this center out of it all; repeat."),
]
Schemes = Annotated[
    str | None,
    typer.Option(
        metavar="NAMES",
        help="Schemes to compare, with commas; a wrong name lists them. Default: POOL, "
        "N-FL-EXACT and the study's own model, PH-FL-NEWTON or DT-FL-NEWTON.",
    ),
]
Folds = Annotated[
    int | None, typer.Option(metavar="K", help="Folds inside each center; 5 unless --left-out.")
]
LeftOut = Annotated[
    bool,
    typer.Option("--left-out", help="Leave out one center at a time; with --folds: do both."),
]


Resume = Annotated[
    bool, typer.Option("--resume", help="Go on with an evaluation that was stopped.")
]
Overwrite = Annotated[bool, to_replace("an evaluation")]


def evaluate(
    study: StudyFile,
    out: Annotated[Path, to_write("RUN")],
    data: DataFile = None,
    center_column: CenterColumn = None,
    center: CenterFiles = None,
    without: Without = None,
    schemes: Schemes = None,
    folds: Folds = None,
    left_out: LeftOut = False,
    runs: Annotated[int, typer.Option(min=1, help="Repeat with this many seeds.")] = 1,
    seed: Annotated[int, typer.Option(min=0, help="The first of them.")] = 0,
    workers: Workers = None,
    resume: Resume = False,
    overwrite: Overwrite = False,
) -> None:
    """Compare learning schemes on patients they were not trained on.

    Every scheme is trained on the same patients and judged on the same others
    by the c-index on true times. Writes RUN/: folds.jsonl with one row for
    each scheme and test set, as soon as it is there, then evaluation.json and
    evaluation.html. Grid, link, reading of censored intervals and ridge are
    the study's. All patients are in this process, so schemes that pool them
    can be compared with those that leave them in their centers.

    fedcox evaluate study.toml --data all.csv --center-column hospital --runs 4 --out run

    fedcox evaluate study.toml --center A=a.csv --center B=b.csv --left-out --out run
    """
    from fedcox.evaluation.workers import one_thread_each

    with one_thread_each():  # numpy reads the setting when it is loaded, which is below
        from fedcox.evaluation import study_experiment as way
        from fedcox.study.study import Study

        files = given_files(data, center_column, center or [])
        way.check_evaluation_folder(out, overwrite=overwrite, resume=resume)
        plan = Study.read(study)
        names = way.usual_schemes(plan) if schemes is None else schemes.split(",")
        names = [name.strip() for name in names]
        federation, notes = _read(plan, files, center_column, names)
        experiment = way.study_experiment(
            plan,
            federation,
            schemes=names,
            folds=folds if folds is not None or left_out else 5,
            left_out=left_out,
            seeds=tuple(range(seed, seed + runs)),
            without=without or [],
        )
        way.begin_folder(out, way.FILES, overwrite=overwrite)
        rows = run_with_progress(experiment, out / way.ROWS, workers or os.cpu_count() or 1)
        _show(experiment, rows, out, plan.schema.time_unit, notes)


def _read(
    plan: Study, files: dict[str, Path] | Path, center_column: str | None, names: list[str]
) -> tuple[InProcess, list[str]]:
    """The patients, and what reading them had to say; unknown schemes are told with faults."""
    import warnings

    from fedcox.cli.fit import read_with_progress
    from fedcox.errors import FedcoxWarning, InputError
    from fedcox.evaluation.schemes import scheme_faults
    from fedcox.evaluation.study_experiment import check_open, left_out_lines

    check_open(plan)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", FedcoxWarning)
            federation = read_with_progress(plan, files, center_column)
    except InputError as error:
        raise InputError(error.subject, [*error.faults, *scheme_faults(names)]) from None
    notes = [str(warning.message) for warning in caught] + left_out_lines(federation)
    if isinstance(files, Path) and center_column is None:
        notes.append(
            "All patients are one center, since no --center-column is named; schemes that "
            "differ by center are then alike."
        )
    return federation, notes


def _show(
    experiment: Experiment, rows: tuple[Row, ...], out: Path, unit: str, notes: list[str]
) -> None:
    """Write the page; show the tables, what to know about them, and where it is."""
    from fedcox.evaluation.study_experiment import PAGE
    from fedcox.reports.evaluation_page import write_evaluation
    from fedcox.reports.evaluation_table import evaluation_table, notes_panel

    command = command_again()
    compared = write_evaluation(out, experiment, rows, unit=unit, notes=notes, command=command)
    console = Terminal()
    for comparison in compared:
        console.print(evaluation_table(comparison, experiment.schemes, title=experiment.name))
    panel = notes_panel(compared, notes)
    if panel is not None:
        console.print(panel)
    show_page(out / PAGE)
