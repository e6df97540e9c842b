"""`fedcox evaluate`: which learning scheme orders new patients best, on a study's own files."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedcox.cli.own_command import own_command
from fedcox.cli.patient_files import (
    CenterColumn,
    CenterFiles,
    DataFile,
    StudyFile,
    given_files,
)
from fedcox.cli.progress import progress_bar

if TYPE_CHECKING:
    from fedcox.analysis.study import Study
    from fedcox.engines.in_process import InProcess
    from fedcox.evaluation.experiment import Experiment
    from fedcox.evaluation.result import Row


def evaluate(
    study: StudyFile,
    out: Annotated[Path, typer.Option("--out", metavar="RUN", help="The folder to write.")],
    data: DataFile = None,
    center_column: CenterColumn = None,
    center: CenterFiles = None,
    without: Annotated[
        list[str] | None,
        typer.Option(metavar="CENTER", help="Leave this center out of it all; repeat."),
    ] = None,
    schemes: Annotated[
        str,
        typer.Option(
            metavar="NAMES", help="Schemes to compare, with commas; a wrong name lists them."
        ),
    ] = "POOL, N-FL-EXACT, DT-FL-NEWTON",
    folds: Annotated[
        int | None,
        typer.Option(metavar="K", help="Folds inside each center; 5 unless --left-out."),
    ] = None,
    left_out: Annotated[
        bool,
        typer.Option(
            "--left-out", help="Leave out one center at a time; with --folds: do both."
        ),
    ] = False,
    runs: Annotated[int, typer.Option(min=1, help="Repeat with this many seeds.")] = 1,
    seed: Annotated[int, typer.Option(min=0, help="The first of them.")] = 0,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes at work; default: one for each core.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with an evaluation that was stopped.")
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an evaluation that is there already.")
    ] = False,
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
        from fedcox.analysis.study import Study
        from fedcox.evaluation.evaluation_folder import begin_folder, check_evaluation_folder
        from fedcox.evaluation.study_experiment import study_experiment

        files = given_files(data, center_column, center or [])
        check_evaluation_folder(out, overwrite=overwrite, resume=resume)
        plan = Study.read(study)
        _check_open(plan)
        names = [name.strip() for name in schemes.split(",")]
        federation, told = _read(plan, files, center_column, names)
        experiment = study_experiment(
            plan,
            federation,
            schemes=names,
            folds=folds if folds is not None or left_out else 5,
            left_out=left_out,
            seeds=tuple(range(seed, seed + runs)),
            without=without or [],
        )
        file = begin_folder(out, overwrite=overwrite)
        rows = run_shown(experiment, file, workers or os.cpu_count() or 1)
        _finish(experiment, rows, out, unit=plan.outcome.unit, told=told)


def _check_open(plan: Study) -> None:
    """Schemes are compared on the patients themselves: no noise is added, and none shown."""
    from fedcox.errors import InputError

    if plan.privacy.differential is not None:
        raise InputError(
            "This study is under differential privacy, and an evaluation adds no noise.",
            [
                "Leave [privacy.differential] out and name another solver to evaluate without; "
                "`fedcox reproduce privacy` compares fits under noise on simulated patients."
            ],
        )


def _read(
    plan: Study, files: dict[str, Path] | Path, center_column: str | None, names: list[str]
) -> tuple[InProcess, list[str]]:
    """The patients, and what reading them had to say; unknown schemes are told with faults."""
    import warnings

    from fedcox.cli.fit import read_shown
    from fedcox.errors import FedcoxWarning, InputError
    from fedcox.evaluation.scheme_choice import scheme_faults

    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", FedcoxWarning)
            federation = read_shown(plan, files, center_column)
    except InputError as error:
        raise InputError(error.subject, [*error.faults, *scheme_faults(names)]) from None
    told = [str(warning.message) for warning in caught]
    dropped: Counter[str] = Counter()
    for center in federation.centers:
        dropped.update(center.dropped)
    told += [
        f"{count:,} patient(s) left out, as the study says: {reason}."
        for reason, count in dropped.items()
        if reason != "no center"  # has a warning of its own
    ]
    if isinstance(files, Path) and center_column is None:
        told.append(
            "All patients are one center, since no --center-column is named; schemes that "
            "differ by center are then alike."
        )
    return federation, told


def run_shown(
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
            typer.echo(
                f"Stopped. {done:,} of {total:,} rows are kept; to go on: "
                f"{own_command('--resume')}",
                err=True,
            )
            raise typer.Exit(130) from None


def _finish(
    experiment: Experiment, rows: tuple[Row, ...], out: Path, *, unit: str, told: list[str]
) -> None:
    """Sum up, write the rest of the folder, and show the tables."""
    from rich.console import Console
    from rich.markup import escape

    from fedcox.evaluation.comparison import compare
    from fedcox.evaluation.evaluation_folder import PAGE, write_summary
    from fedcox.reports.evaluation_page import (
        EvaluatedData,
        EvaluationPage,
        write_evaluation_page,
    )
    from fedcox.reports.evaluation_table import evaluation_table, notes_panel

    compared = compare(rows, drawn_anew=experiment.problem.drawn_anew)
    command = own_command()
    write_summary(out, experiment.header, compared, command=command, notes=told)
    cohorts = experiment.problem.cohorts(experiment.seeds[0])
    page = EvaluationPage(
        title=experiment.name,
        lead="Learning schemes compared on patients they were not trained on.",
        data=[EvaluatedData(experiment.name, rows, cohorts, unit)],
        command=command,
        versions=experiment.header["versions"],
        notes=told,
    )
    write_evaluation_page(page, out / PAGE)
    console = Console()
    for comparison in compared:
        console.print(evaluation_table(comparison, experiment.schemes, title=experiment.name))
    panel = notes_panel(compared, told)
    if panel is not None:
        console.print(panel)
    console.print(f"The page to read: {escape(str(out / PAGE))}", soft_wrap=True)
