"""What a reproduction leaves on disk: one file of rows per panel, a summary, a page."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path
from typing import Any

from fedcox.errors import InputError, OutputError
from fedcox.evaluation.comparison import REPLICATES, Claim
from fedcox.evaluation.result import Evaluation, open_results
from fedcox.files.writing import check_folder, owners_folder, write_atomically
from fedcox.paper.reproduction import Compared, Panel, Reproduction

SUMMARY, PAGE = "reproduction.json", "reproduction.html"


def rows_file(folder: Path, panel: str) -> Path:
    """Where the rows of one panel are."""
    return folder / f"{panel}.jsonl"


def check_reproduction_folder(
    folder: Path, panels: Sequence[str], *, overwrite: bool, resume: bool
) -> None:
    """Refuse a folder that exists, unless told to go on with it or to replace it."""
    if overwrite and resume:
        raise InputError(
            "--overwrite and --resume exclude each other.",
            ["Say --resume to keep the rows that are there, --overwrite to begin again."],
        )
    if folder.is_dir() and any(folder.iterdir()) and not overwrite and not resume:
        raise OutputError(
            f"The folder {folder} exists already.",
            ["Say --resume to go on with it, --overwrite to begin again, or choose another."],
        )
    if folder.is_dir() and not any(folder.iterdir()):
        return
    ours = _names(folder, panels)
    check_folder(
        folder,
        overwrite=overwrite or resume,
        is_ours=lambda path: path.name in ours and path.is_file(),
        what="reproduction",
    )


def begin_reproduction(folder: Path, panels: Sequence[Panel], *, overwrite: bool) -> None:
    """Make the folder ready for rows; a file of another experiment is told before any run."""
    try:
        owners_folder(folder)
        if overwrite:
            for name in _names(folder, [panel.name for panel in panels]):
                (folder / name).unlink(missing_ok=True)
    except OSError as error:
        raise OutputError(
            f"Cannot write the folder {folder}: {error.strerror or error}.",
            ["Choose a folder inside one that you may write to."],
        ) from error
    for panel in panels:
        open_results(rows_file(folder, panel.name), panel.experiment.header)


def _names(folder: Path, panels: Sequence[str]) -> set[str]:
    return {SUMMARY, PAGE, *(rows_file(folder, panel).name for panel in panels)}


def write_reproduction(
    folder: Path,
    reproduction: Reproduction,
    compared: Compared,
    claims: Sequence[Claim],
    *,
    command: str,
) -> None:
    """Write reproduction.json: what was run, what came out, which statements held."""
    record = {
        "reproduction": reproduction.name,
        "command": command,
        "panels": {
            panel.name: {**panel.experiment.header, "notes": [*panel.notes]}
            for panel in reproduction.panels
        },
        "comparisons": [
            {
                "panel": panel,
                **asdict(comparison),
                "interval": REPLICATES[comparison.replicates],
            }
            for (panel, _), comparison in compared.items()
        ],
        "claims": [asdict(claim) for claim in claims],
    }
    text = json.dumps(record, indent=2, allow_nan=False, ensure_ascii=False)
    write_atomically(folder / SUMMARY, text + "\n")


def expected_indices(
    reproduction: str,
) -> Mapping[str, Mapping[tuple[Evaluation, str], float]]:
    """Mean c-indices of the stored full run, by panel, evaluation and scheme.

    The paper shows its own in figures without numbers; these are what its sizes gave here.
    """
    stored: dict[str, Any] = json.loads(
        files("fedcox.evaluation").joinpath("expected.json").read_text(encoding="utf-8")
    )
    return {
        panel: {
            (evaluation, scheme): index
            for evaluation, schemes in evaluations.items()
            for scheme, index in schemes.items()
        }
        for panel, evaluations in stored.get(reproduction, {}).items()
    }
