"""`fedcox fit`, `report` and `predict`: a study in this process, its page, its new patients."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedcox.cli.options import (
    CenterColumn,
    CenterFiles,
    DataFile,
    StudyFile,
    given_files,
    to_replace,
    to_write,
)
from fedcox.cli.terminal import Terminal, command_given, progress_bar, say, show_page, spinner

if TYPE_CHECKING:
    from fedcox.engines.in_process import InProcess
    from fedcox.federation.policy import Policy
    from fedcox.solvers.solver import Watcher
    from fedcox.study.fitted import FittedStudy
    from fedcox.study.study import Study


Policies = Annotated[
    list[str] | None,
    typer.Option(
        metavar="[NAME=]FILE",
        help="A center's own policy (policy.toml), or that of all centers; repeat. The "
        "word default stands for a hospital without a file.",
    ),
]


def fit(
    study: StudyFile,
    out: Annotated[Path, to_write("RUN")],
    data: DataFile = None,
    center_column: CenterColumn = None,
    center: CenterFiles = None,
    policy: Policies = None,
    budget: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Under differential privacy: what every center's patients have spent so far, "
            "one file each, kept between studies.",
        ),
    ] = None,
    threads: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="How many at most. Default: OMP_NUM_THREADS, or one for every core.",
        ),
    ] = None,
    overwrite: Annotated[bool, to_replace("a run")] = False,
) -> None:
    """Fit a study and write RUN/: fit.json, summary.csv, report.html, ledger.jsonl.

    One file with the centers in a column, or one file (CSV or Parquet) per center:

    fedcox fit study.toml --data all.csv --center-column hospital --out run

    fedcox fit study.toml --center A=a.csv --center B=b.parquet --out run

    As it would run between hospitals, with secure_sums = true in the study's [privacy]
    and every hospital's own policy:

    fedcox fit study.toml --center A=a.csv --center B=b.csv --center C=c.csv --policy
    default --policy B=b_policy.toml --out run
    """
    from dataclasses import replace

    from fedcox.reports.run_folder import check_run_folder, write_run
    from fedcox.study.study import Study
    from fedcox.survival.threads import at_most

    files = given_files(data, center_column, center or [])
    check_run_folder(out, overwrite=overwrite)
    plan = Study.read(study)
    limits = given_policies(policy or [])
    with at_most(threads):
        fitted = fit_with_progress(plan, files, center_column, limits, budget)
    fitted = replace(fitted, command=command_given())
    show(write_run(fitted, out, overwrite=overwrite), out / "report.html")


def given_policies(policies: list[str]) -> dict[str | None, Policy]:
    """Policies as named on the command line, by center; None stands for all other centers."""
    from fedcox.errors import InputError
    from fedcox.study.admission import read_policy

    limits: dict[str | None, Policy] = {}
    faults = []
    for text in policies:
        name, equals, file = text.rpartition("=")
        center = name if equals else None
        if center in limits:
            faults.append(f"--policy {text!r}: a policy of {center or 'all centers'} is there.")
            continue
        limits[center] = read_policy(file)
    if faults:
        raise InputError("The policies are not clear.", faults)
    return limits


def fit_with_progress(
    plan: Study,
    files: dict[str, Path] | Path,
    center_column: str | None,
    limits: Mapping[str | None, Policy] | None = None,
    budget: Path | None = None,
) -> FittedStudy:
    """Read and fit with progress on the terminal; warnings are left to the caller to show."""
    import warnings
    from dataclasses import replace

    from fedcox.errors import FedcoxWarning
    from fedcox.study.center_files import reading_notices
    from fedcox.study.fit import fit as run

    with reading_notices(plan) as notices:
        federation = read_with_progress(plan, files, center_column, limits)
        if budget is not None:
            federation = _with_budgets(plan, federation, budget)
    with warnings.catch_warnings(), watching(plan) as watch:
        warnings.simplefilter("ignore", FedcoxWarning)  # they come back in `notices`
        fitted = run(plan, federation, watch)
    return replace(fitted, notices=(*notices, *fitted.notices))


def _with_budgets(plan: Study, federation: InProcess, folder: Path) -> InProcess:
    from fedcox.errors import InputError

    if not plan.privacy.noised:
        raise InputError(
            "A privacy budget is for studies under differential privacy.",
            ["Leave --budget out, or give the study a table [privacy.noise]."],
        )
    from fedcox.study.admission import with_budgets

    return with_budgets(plan, federation, folder)


def read_with_progress(
    plan: Study,
    files: dict[str, Path] | Path,
    center_column: str | None,
    limits: Mapping[str | None, Policy] | None = None,
) -> InProcess:
    """Centers from the files, each under its policy, if these let the study run."""
    from fedcox.study.center_files import read_centers

    with progress_bar() as progress:
        if isinstance(files, Path):
            progress.add_task(f"reading {files}", total=None)
        return read_centers(
            plan,
            files,
            center_column,
            limits,
            each=lambda every: progress.track(every, description="reading"),
        )


@contextmanager
def watching(plan: Study) -> Iterator[Watcher]:
    """A progress line that moves with every step of the solver."""
    from fedcox.solvers.solver import Step

    steps = getattr(plan.solver, "steps", None)
    with spinner() as progress:
        task = progress.add_task("agreeing on time and scale", total=steps)
        asked = 0
        of = f" of {steps}" if steps else ""

        def watch(step: Step) -> None:
            nonlocal asked
            asked += 1
            line = f"step {asked}{of}"
            if isfinite(step.loss):  # under noise nobody asks for it
                line += f": loss {step.loss:.6g}"
            if step.decrement is not None:
                line += f", still to gain {step.decrement / 2:.1e}"
            progress.update(task, advance=1, description=line)

        yield watch


def show(fitted: FittedStudy, page: Path) -> None:
    """The ratios and what to know about them, on the terminal."""
    from fedcox.reports.ratio_table import guarantee_panel, ratio_table, warnings_panel

    console = Terminal()
    console.print(ratio_table(fitted))
    for panel in (guarantee_panel(fitted), warnings_panel(fitted)):
        if panel is not None:
            console.print(panel)
    show_page(page)


def report(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a fit.")],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="FILE.html", help="Where to write; default RUN/report.html."
        ),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="With --out: replace a file that is there.")
    ] = False,
) -> None:
    """Write the report of a fit again, from its fit.json and ledger.jsonl.

    Example: fedcox report run --out for-the-meeting.html
    """
    from fedcox.files.writing import check_file
    from fedcox.reports.run_folder import read_run
    from fedcox.reports.study_report import write_report

    fitted = read_run(run)
    if out is not None:
        check_file(out, overwrite=overwrite)
    folder = run if run.is_dir() else run.parent
    page = out or folder / "report.html"
    write_report(fitted, page)
    show(fitted, page)


def predict(
    run: Annotated[
        Path, typer.Argument(metavar="RUN", help="The folder of a fit, or its fit.json.")
    ],
    data: Annotated[
        Path, typer.Option("--data", metavar="FILE", help="New patients: CSV or Parquet.")
    ],
    out: Annotated[Path, to_write("FILE.csv", "file")],
    at: Annotated[
        list[float] | None,
        typer.Option(
            metavar="TIME", help="Survival at this time; repeat. Default: a few round times."
        ),
    ] = None,
    overwrite: Annotated[bool, to_replace("a file")] = False,
) -> None:
    """Predict survival of new patients: log risk, median time, survival over time.

    The file needs the study's covariates and no outcome. A median that the
    follow-up does not reach stays empty. Each survival comes with the low and
    high end of its 95 % band.

    Example: fedcox predict run --data new.csv --at 365 --at 730 --out predicted.csv
    """
    from fedcox.data.cohort_file import read_table
    from fedcox.files.writing import check_file, write_atomically
    from fedcox.reports.run_folder import predictions, read_run

    fitted = read_run(run)
    check_file(out, overwrite=overwrite)
    with progress_bar() as progress:
        progress.add_task("predicting", total=None)
        table = predictions(fitted, read_table(data), at)
        write_atomically(out, table.to_csv(index=False))
    say(f"{len(table):,} patients written to {out}.")
