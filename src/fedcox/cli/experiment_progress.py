"""How far an experiment is: schemes and test sets; stopped, how to go on with it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from fedcox.cli.own_command import own_command
from fedcox.cli.progress import progress_bar
from fedcox.cli.say import say

if TYPE_CHECKING:
    from fedcox.evaluation.experiment import Experiment
    from fedcox.evaluation.result import Row


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
            say(
                f"Stopped. {done:,} of {total:,} rows are kept; to go on: "
                f"{own_command('--resume')}",
                err=True,
            )
            raise typer.Exit(130) from None
