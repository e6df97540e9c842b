"""The options by which a command is told of patients: one file for all, or one per center."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

StudyFile = Annotated[
    Path,
    typer.Argument(metavar="STUDY.toml", help="The study file, the same for everyone."),
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
