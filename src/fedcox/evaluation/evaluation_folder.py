"""What an evaluation leaves on disk: folds.jsonl while it runs, the rest when it is done."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fedcox.data.wording import quoted
from fedcox.errors import InputError, OutputError
from fedcox.evaluation.comparison import REPLICATES, Comparison
from fedcox.evaluation.result_file import holds_results, read_results
from fedcox.files.writing import owners_folder, write_atomically

ROWS, SUMMARY, PAGE = "folds.jsonl", "evaluation.json", "evaluation.html"
FILES = (ROWS, SUMMARY, PAGE)


def check_evaluation_folder(folder: Path, *, overwrite: bool, resume: bool) -> None:
    """Refuse a folder with other files, or with an evaluation that nobody said a word about."""
    if overwrite and resume:
        raise InputError(
            "--overwrite and --resume exclude each other.",
            ["Say --resume to keep the rows that are there, --overwrite to begin again."],
        )
    if not (folder.exists() or folder.is_symlink()):
        return
    if not folder.is_dir():
        raise OutputError(f"{folder} exists and is not a folder.", ["Choose another name."])
    there = sorted(folder.iterdir())
    others = [path.name for path in there if not _ours(path)]
    if others:
        raise OutputError(
            f"The folder {folder} holds what no evaluation wrote: {quoted(others)}.",
            ["Choose another folder, or move these files away."],
        )
    if there and not overwrite and not resume:
        raise OutputError(
            f"The folder {folder} holds an evaluation{_so_far(folder)}.",
            ["Say --resume to go on with it, --overwrite to begin again, or choose another."],
        )


def _ours(path: Path) -> bool:
    if path.name not in FILES or not path.is_file():
        return False
    return path.name != ROWS or holds_results(path)


def begin_folder(folder: Path, *, overwrite: bool) -> Path:
    """Make the folder ready for rows, and say where these go."""
    try:
        owners_folder(folder)
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
