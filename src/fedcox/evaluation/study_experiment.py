"""A user's own study and files as an experiment, and the folder that it leaves.

folds.jsonl while it runs, the rest when it is done.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fedcox.data.wording import quoted
from fedcox.engines.in_process import InProcess
from fedcox.errors import InputError, OutputError
from fedcox.evaluation.comparison import REPLICATES, Comparison
from fedcox.evaluation.experiment import Experiment
from fedcox.evaluation.folds import small_centers
from fedcox.evaluation.problem import FixedPatients
from fedcox.evaluation.result import holds_results, read_results
from fedcox.evaluation.scheme import Recipe
from fedcox.evaluation.schemes import SCHEMES, scheme_faults, schemes_named
from fedcox.files.writing import owners_folder, write_json
from fedcox.study.study import Study
from fedcox.survival.link import LINKS

ROWS, SUMMARY, PAGE = "folds.jsonl", "evaluation.json", "evaluation.html"
FILES = (ROWS, SUMMARY, PAGE)


def check_open(study: Study) -> None:
    """Schemes are compared on the patients themselves: no noise is added, and none shown."""
    if study.privacy.noised:
        raise InputError(
            "This study is under differential privacy, and an evaluation adds no noise.",
            [
                "Leave noise out of [privacy] to evaluate without; "
                "`fedcox reproduce privacy` compares fits under noise on simulated patients."
            ],
        )


def left_out_lines(federation: InProcess) -> list[str]:
    """How many patients were dropped, for each reason, and cells filled, over all centers."""
    dropped: Counter[str] = Counter()
    filled: Counter[str] = Counter()
    for center in federation.centers:
        dropped.update(center.dropped)
        filled.update(center.filled)
    return [
        *(
            f"{count:,} patient(s) left out, as the study says: {reason}."
            for reason, count in dropped.items()
            if reason != "no center"  # has a warning of its own
        ),
        *(
            f"{count:,} cell(s) of column '{name}' without a value filled with the mean."
            for name, count in filled.items()
        ),
    ]


def recipe_of(study: Study) -> Recipe:
    """Grid, link, reading of censored intervals and ridge; all else as in the paper."""
    grid = study.grid
    return Recipe(
        width=grid.width,
        horizon=grid.horizon if grid.edges is None else grid.edges[-1],
        link=study.model.link,
        censored_interval=study.model.censored_interval,
        ridge=study.model.ridge,
        edges=grid.edges,
        pieces=grid.pieces,
        every_event=grid.times is not None,
        resolution=study.outcome.resolution,
    )


def usual_schemes(study: Study) -> list[str]:
    """Compared if nobody names any: Cox's model, pooled and naive, and the study's own."""
    exact = "DT-FL-NEWTON" if LINKS[study.model.link].grouped else "PH-FL-NEWTON"
    return ["POOL", "N-FL-EXACT", exact]


def study_experiment(
    study: Study,
    federation: InProcess,
    *,
    schemes: Sequence[str],
    folds: int | None = 5,
    left_out: bool = False,
    seeds: tuple[int, ...] = (0,),
    without: Sequence[str] = (),
) -> Experiment:
    """Compare schemes on a study's patients; every fault is raised at once.

    Centers named in `without` take no part at all.
    """
    faults = _unknown_centers(federation, without)
    parts = {
        center.name: center.cohort
        for center in federation.centers
        if center.name not in without
    }
    if not parts:
        raise InputError("No center is left.", ["Name fewer centers to do without."])
    try:
        experiment = Experiment(
            study.name,
            FixedPatients.of(parts),
            # Unknown names are told below; any scheme serves to find the other faults.
            schemes_named(schemes) or (SCHEMES["POOL"],),
            recipe_of(study),
            folds=folds,
            left_out=left_out,
            seeds=seeds,
        )
    except InputError as error:
        faults += error.faults
    small = small_centers(parts, folds or 0)
    if 0 < len(small) < len(parts):
        words = shlex.join(word for name in small for word in ("--without", name))
        faults.append(f"To leave those centers out, say {words}")
    faults += scheme_faults(schemes)
    if faults:
        raise InputError("This evaluation cannot be run as it is.", faults)
    return experiment


def _unknown_centers(federation: InProcess, names: Sequence[str]) -> list[str]:
    unknown = [name for name in names if name not in federation.names]
    if not unknown:
        return []
    return [
        f"There is no center {quoted(unknown, joint='or')} to do without; the centers are "
        f"{quoted(federation.names)}."
    ]


def check_one_of(*, overwrite: bool, resume: bool, kept: str) -> None:
    """Refuse to go on with what is to be replaced."""
    if overwrite and resume:
        raise InputError(
            "--overwrite and --resume exclude each other.",
            [f"Say --resume to keep {kept}, --overwrite to begin again."],
        )


def check_evaluation_folder(folder: Path, *, overwrite: bool, resume: bool) -> None:
    """Refuse a folder with other files, or with an evaluation that nobody said a word about."""
    check_one_of(overwrite=overwrite, resume=resume, kept="the rows that are there")
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


def begin_folder(folder: Path, names: Iterable[str], *, overwrite: bool) -> None:
    """Make the folder ready for rows; with `overwrite` the files of these names go."""
    try:
        owners_folder(folder)
        if overwrite:
            for name in names:
                (folder / name).unlink(missing_ok=True)
    except OSError as error:
        raise OutputError(
            f"Cannot write the folder {folder}: {error.strerror or error}.",
            ["Choose a folder inside one that you may write to."],
        ) from error


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
    write_json(folder / SUMMARY, record)


def _so_far(folder: Path) -> str:
    """How far the evaluation in a folder came, where its file can be read."""
    with suppress(InputError, KeyError, TypeError):
        header, rows = read_results(folder / ROWS)
        return f" with {len(rows):,} of {header['rows']:,} rows"
    return ""
