"""An experiment of several panels: run each, compare the schemes, check the paper's claims."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from fedcox.cli.experiment_progress import run_shown
from fedcox.cli.own_command import own_command

if TYPE_CHECKING:
    from fedcox.evaluation.comparison import Claim
    from fedcox.paper.reproduction import Compared, Reproduction


def run_panels(
    reproduction: Reproduction,
    out: Path,
    *,
    workers: int | None,
    resume: bool,
    overwrite: bool,
) -> None:
    """Run what is left of it, write the folder, and show what was found."""
    from fedcox.paper.reproduction_folder import (
        begin_reproduction,
        check_reproduction_folder,
        rows_file,
    )
    from fedcox.paper.reproduction_run import write_reproduction_run

    names = [panel.name for panel in reproduction.panels]
    check_reproduction_folder(out, names, overwrite=overwrite, resume=resume)
    begin_reproduction(out, reproduction.panels, overwrite=overwrite)
    processes = workers or os.cpu_count() or 1
    rows = {
        panel.name: run_shown(
            panel.experiment, rows_file(out, panel.name), processes, what=panel.title
        )
        for panel in reproduction.panels
    }
    compared, claims = write_reproduction_run(out, reproduction, rows, command=own_command())
    _show(reproduction, compared, claims, out)


def _show(
    reproduction: Reproduction, compared: Compared, claims: tuple[Claim, ...], out: Path
) -> None:
    from rich.markup import escape

    from fedcox.cli.terminal import Terminal
    from fedcox.paper.claims_table import claims_table
    from fedcox.paper.reproduction_folder import PAGE
    from fedcox.reports.evaluation_table import evaluation_table

    console = Terminal()
    titles = {panel.name: panel.title for panel in reproduction.panels}
    schemes = reproduction.panels[0].experiment.schemes
    for (panel, _), comparison in compared.items():
        console.print(evaluation_table(comparison, schemes, title=titles[panel]))
    title = "The paper's conclusions, as checked here"
    console.print(claims_table(claims, title=title, caption=reproduction.claims_note))
    console.print(f"The page to read: {escape(str(out / PAGE))}", soft_wrap=True)
