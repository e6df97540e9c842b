"""Arguments and options that the commands on slides share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

ManifestFile = Annotated[
    Path,
    typer.Argument(
        metavar="SLIDES.csv",
        help="One line per slide: slide_id, patient_id, center, path (from this folder).",
    ),
]
ModelFolder = Annotated[
    Path, typer.Argument(metavar="MODEL", help="The folder that `fedcox slides train` wrote.")
]
WorkFolder = Annotated[
    Path,
    typer.Option(
        "--work",
        metavar="WORK",
        help="The folder of masks, tiles and features; the same for all steps.",
    ),
]
AssumeMpp = Annotated[
    float | None,
    typer.Option(
        min=0.01,
        max=20.0,
        metavar="MICROMETRES",
        help="Micrometres per pixel of slides whose file does not tell; others keep their own.",
    ),
]
DeepZoomTile = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="PX",
        help="For features in Owkin's layout: pixels of a tile, 224 for most encoders, 256 for "
        "some.",
    ),
]
ComputeDevice = Annotated[
    Literal["cpu", "cuda"],
    typer.Option(help="Where it is computed."),
]
