"""Arguments and options that several commands share, each declared once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer


def to_write(metavar: str, what: str = "folder") -> Any:
    """The option --out: where a command writes."""
    return typer.Option("--out", metavar=metavar, help=f"The {what} to write.")


def to_replace(what: str) -> Any:
    """The option --overwrite, without which nothing that is there is touched."""
    return typer.Option("--overwrite", help=f"Replace {what} that is there already.")


# Studies and their patients: one file for all, or one per center.

StudyFile = Annotated[
    Path, typer.Argument(metavar="STUDY.toml", help="The study file, the same for everyone.")
]
DataFile = Annotated[
    Path | None,
    typer.Option("--data", metavar="FILE", help="One file with the patients of all centers."),
]
CenterColumn = Annotated[
    str | None,
    typer.Option(metavar="COLUMN", help="With --data: the column that names the center."),
]
CenterFiles = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=FILE", help="One file per center; repeat for each."),
]
HospitalFile = Annotated[
    Path,
    typer.Option("--data", metavar="FILE", help="This hospital's patients: CSV or Parquet."),
]
Workers = Annotated[
    int | None, typer.Option(min=1, help="Processes at work; default: one for each core.")
]


def given_files(
    data: Path | None, center_column: str | None, centers: list[str]
) -> dict[str, Path] | Path:
    """The patients' files as named on the command line: one for all, or one for each center."""
    from fedcox.errors import InputError

    if data is not None and not centers:
        return data
    faults = []
    if data is None and not centers:
        faults.append("No patients were given: use --data FILE, or --center NAME=FILE.")
    if data is not None and centers:
        faults.append("Give either --data or --center, not both.")
    if center_column is not None and centers:
        faults.append(
            "--center-column belongs to --data; with --center each file is one center."
        )
    files, unclear = _named_files(centers)
    if faults or unclear:
        raise InputError("The patients' files are not clear.", faults + unclear)
    return files


def _named_files(centers: list[str]) -> tuple[dict[str, Path], list[str]]:
    """The files of NAME=FILE arguments, and what is wrong with these."""
    files: dict[str, Path] = {}
    faults = []
    for text in centers:
        name, equals, file = text.partition("=")
        if not (name and equals and file):
            faults.append(f"--center {text!r} is not of the form NAME=FILE.")
        elif name in files:
            faults.append(f"Center {name!r} is given twice; give each center once.")
        elif Path(file).resolve() in {path.resolve() for path in files.values()}:
            faults.append(f"{file} is given for two centers; each file is one center.")
        files[name] = Path(file)
    return files, faults


# Whole slides.

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
ComputeDevice = Annotated[Literal["cpu", "cuda"], typer.Option(help="Where it is computed.")]
