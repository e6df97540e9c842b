"""Options that the commands of `fedcox reproduce` share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Out = Annotated[Path, typer.Option("--out", metavar="RUN", help="The folder to write.")]
Quick = Annotated[bool, typer.Option("--quick", help="A minute instead of the paper's sizes.")]
Workers = Annotated[
    int | None, typer.Option(min=1, help="Processes at work; default: one for each core.")
]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with a run that was stopped.")]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace a run that is there already.")
]
