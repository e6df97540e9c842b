"""How far a training is: epoch, loss, time left."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import isfinite
from typing import TYPE_CHECKING

from fedcox.cli.progress import progress_bar

if TYPE_CHECKING:
    from fedcox.solvers.training import TrainingWatcher


@contextmanager
def training_display(epochs: int) -> Iterator[TrainingWatcher]:
    """What a training reports to, drawn on standard error while the block lasts."""
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn

    from fedcox.solvers.training import EpochLoss, TrainingStep

    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with progress_bar(*columns) as progress:
        task = progress.add_task("agreeing on time", total=float(epochs))

        def watch(at: TrainingStep | EpochLoss) -> None:
            if isinstance(at, EpochLoss):
                told = f"epoch {at.epoch} of {epochs}: loss {at.loss:.4f}"
                if at.validation is not None:
                    told += f", held out {at.validation:.4f}"
                progress.update(task, completed=at.epoch, description=told)
                return
            part = at.epoch - 1 + at.step / at.steps
            words = f"epoch {at.epoch} of {epochs}, step {at.step} of {at.steps}"
            if isfinite(at.loss):  # under noise nobody asks for it
                words += f": loss {at.loss:.4f}"
            progress.update(task, completed=part, description=words)

        yield watch
