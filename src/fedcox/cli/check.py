"""`fedcox check`: a hospital alone with its file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from fedcox.cli.options import HospitalFile
from fedcox.cli.terminal import Terminal, spinner

if TYPE_CHECKING:
    from fedcox.data.overview import CohortOverview
    from fedcox.study.study import Study


def check(
    study: Annotated[
        Path,
        typer.Argument(metavar="STUDY.toml", help="The study file, as every center has it."),
    ],
    data: HospitalFile,
    policy: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="This hospital's own policy, or the word default: would it take part?",
        ),
    ] = None,
) -> None:
    """Check a hospital's file against the study; nothing leaves this machine.

    Names every fault of the file at once (exit status 2), or shows what the
    study will find in it: counts only, never a patient's value, and small
    groups as "<5".

    With --policy it also tells whether the hospital's own policy allows the study, as far
    as that can be known before the other centers are asked.

    Example: fedcox check study.toml --data hospital_1.csv --policy policy.toml
    """
    import warnings

    from fedcox.errors import FedcoxWarning
    from fedcox.study.file_check import check_file
    from fedcox.study.study import Study

    plan = Study.read(study)
    with spinner() as progress, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", FedcoxWarning)
        progress.add_task("reading and checking the file", total=None)
        overview = check_file(plan, data, policy)
    console = Terminal()
    _show_patients(console, plan, data, overview)
    doubts = [str(w.message) for w in caught if issubclass(w.category, FedcoxWarning)]
    _show_remarks(console, plan, doubts)
    _show_covariates(console, overview)
    _show_intervals(console, plan, overview)
    if policy is not None:
        console.print("The policy allows this study, as far as this file alone can tell.")


def _show_patients(
    console: Terminal, plan: Study, data: Path, overview: CohortOverview
) -> None:
    console.print(f"[bold green]✓[/] [bold]{escape(str(data))}[/] fits “{escape(plan.name)}”.")
    noun = "patient" if overview.patients == 1 else "patients"
    console.print(f"{overview.patients:,} {noun}, {_events(overview.events)}.")
    for reason, count in overview.dropped.items():
        console.print(f"{count:,} left out, as the study says: {reason}.")
    for name, count in overview.filled.items():
        cells = "cell" if count == 1 else "cells"
        console.print(
            f"{count:,} {cells} of column '{escape(name)}' to be filled with the mean, as the "
            "study says."
        )
    if overview.events == 0:
        console.print("A center without events is fine: its patients count as at risk.")


def _show_remarks(console: Terminal, plan: Study, doubts: list[str]) -> None:
    """What is no fault, and somebody should look at."""
    if plan.outcome.unit is None:
        doubts = [
            *doubts,
            "The study does not say in which unit times are, so pages will say “units of "
            'time”. Its [outcome] should have unit = "days", or whatever they are in.',
        ]
    if plan.privacy.secure_sums and not plan.privacy.noised:
        doubts = [
            *doubts,
            "The study has no noise. Between hospitals exact sums leave only where the study "
            'says noise = "none" and the policy of each hospital exact_sums = true.',
        ]
    for text in doubts:
        console.print(f"[bold yellow]![/] {escape(text)}")


def _events(count: int) -> str:
    from fedcox.data.overview import small_cell

    return f"{small_cell(count)} events"


def _show_covariates(console: Terminal, overview: CohortOverview) -> None:
    from fedcox.data.overview import small_cell

    table = Table("covariate", "kind", title="Covariates", title_justify="left")
    table.add_column("missing", justify="right")
    table.add_column("patients by level")
    for column in overview.columns:
        levels = column.levels or {}
        counts = ", ".join(f"{level}: {small_cell(n)}" for level, n in levels.items())
        kind = "number" if column.levels is None else "category"
        table.add_row(escape(column.name), kind, f"{column.missing:,}", escape(counts))
    console.print(table)


def _show_intervals(console: Terminal, plan: Study, overview: CohortOverview) -> None:
    from fedcox.data.overview import small_cell

    if not overview.intervals:
        console.print("Each event time is an interval of its own in this study: none is shown.")
        return
    heading = f"follow-up ({escape(plan.schema.time_unit)})"
    table = Table(heading, title="Events per interval")
    table.title_justify = "left"
    table.add_column("events", justify="right")
    for interval in overview.intervals:
        table.add_row(interval.label, small_cell(interval.events))
    console.print(table)
