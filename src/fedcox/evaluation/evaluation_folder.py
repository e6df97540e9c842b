"""What an evaluation leaves on disk: folds.jsonl while it runs, the rest when it is done."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fedcox.analysis.atomic_file import write_atomically
from fedcox.analysis.atomic_folder import check_folder
from fedcox.errors import InputError, OutputError
from fedcox.evaluation.comparison import REPLICATES, Comparison
from fedcox.evaluation.result_file import read_results

ROWS, SUMMARY, PAGE = "folds.jsonl", "evaluation.json", "evaluation.html"
FILES = (ROWS, SUMMARY, PAGE)


def check_evaluation_folder(folder: Path, *, overwrite: bool, resume: bool) -> None:
    """Refuse a folder that exists, unless told to go on with it or to replace it."""
    if overwrite and resume:
        raise InputError(
            "--overwrite and --resume exclude each other.",
            ["Say --resume to keep the rows that are there, --overwrite to begin again."],
        )
    if (folder / ROWS).is_file() and not overwrite and not resume:
        raise OutputError(
            f"The folder {folder} holds an evaluation{_so_far(folder)}.",
            ["Say --resume to go on with it, --overwrite to begin again, or choose another."],
        )
    check_folder(
        folder,
        overwrite=overwrite or resume,
        is_ours=lambda path: path.name in FILES and path.is_file(),
        what="evaluation",
    )


def begin_folder(folder: Path, *, overwrite: bool) -> Path:
    """Make the folder ready for rows, and say where these go."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if overwrite:
            for name in FILES:
                (folder / name).unlink(missing_ok=True)
    except OSError as error:
        raise OutputError(
            f"Cannot write the folder {folder}: {error.strerror or error}.",
            ["Choose a folder inside one that you may write to."],
        ) from error
    return folder / ROWS


def write_summary(
    folder: Path,
    header: Mapping[str, Any],
    compared: Sequence[Comparison],
    *,
    command: str,
    notes: Sequence[str] = (),
) -> None:
    """Write evaluation.json: what was done, and what came out of it."""
    record = {
        **header,
        "command": command,
        "notes": [*notes],
        "comparisons": [
            {**asdict(comparison), "interval": REPLICATES[comparison.replicates]}
            for comparison in compared
        ],
    }
    text = json.dumps(record, indent=2, allow_nan=False, ensure_ascii=False)
    write_atomically(folder / SUMMARY, text + "\n")


def _so_far(folder: Path) -> str:
    """How far the evaluation in a folder came, where its file can be read."""
    with suppress(InputError, KeyError, TypeError):
        header, rows = read_results(folder / ROWS)
        return f" with {len(rows):,} of {header['rows']:,} rows"
    return ""
