"""A reproduction of one section of the paper: its panels, its folder, its page, its claims."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
from pydantic import TypeAdapter
from rich.markup import escape
from rich.table import Table

from fedcox.errors import OutputError
from fedcox.evaluation.comparison import REPLICATES, Claim, Comparison, SchemeSummary, compare
from fedcox.evaluation.experiment import Experiment
from fedcox.evaluation.result import Evaluation, Row, open_results
from fedcox.evaluation.study_experiment import begin_folder, check_one_of
from fedcox.files.writing import check_folder, write_json
from fedcox.reports.evaluation_page import EvaluatedData, EvaluationPage, write_evaluation_page
from fedcox.survival.cohort import Cohort, FloatArray
from fedcox.survival.concordance import concordance_index

#: Comparisons by panel and evaluation.
Compared = Mapping[tuple[str, Evaluation], Comparison]
SUMMARY, PAGE = "reproduction.json", "reproduction.html"
_Rows = Mapping[str, tuple[Row, ...]]
#: Hears how many of how many things are done, and what comes next.
Progress = Callable[[int, int, str], None]


def silent(done: int, total: int, words: str) -> None:
    """Nobody hears of progress."""


class SmallStudy(Protocol):
    """What came out of a study of the paper that leaves its numbers and a page."""

    def to_json(self) -> dict[str, Any]: ...


Stored = TypeVar("Stored")


def stored_study(kind: type[Stored], record: Mapping[str, Any]) -> Stored:
    """The study of this kind whose JSON this is; its page is made from it as from the first."""
    return TypeAdapter(kind).validate_python(record)


@dataclass(frozen=True, eq=False)
class Panel:
    """One data set, or one split of it, with the experiment on it; `name` names its file."""

    name: str
    title: str
    experiment: Experiment
    unit: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Reproduction:
    """One section of the paper: what to run, and what its results should show."""

    name: str
    title: str
    lead: str
    panels: tuple[Panel, ...]
    claims: Callable[[Compared], tuple[Claim, ...]]
    claims_note: str
    reference: str | None = None


def summary_of(comparison: Comparison, scheme: str) -> SchemeSummary:
    """One scheme of a comparison."""
    return {summary.scheme: summary for summary in comparison.schemes}[scheme]


def mean_of(comparison: Comparison, scheme: str) -> float:
    """The scheme's mean c-index; NaN where no test set gave one, which no claim survives."""
    mean = summary_of(comparison, scheme).mean
    return float("nan") if mean is None else mean


def mean_and_error(values: FloatArray) -> tuple[float, float]:
    """The mean, and its standard error."""
    return float(values.mean()), float(values.std(ddof=1) / np.sqrt(values.size))


def index_of(risk: FloatArray, patients: Cohort) -> float:
    """The c-index of a risk on these patients; NaN where no two can be compared."""
    index = concordance_index(patients.time, patients.event, risk).index
    return float("nan") if index is None else index


def rows_file(folder: Path, panel: str) -> Path:
    """Where the rows of one panel are."""
    return folder / f"{panel}.jsonl"


def check_reproduction_folder(
    folder: Path, panels: Sequence[str], *, overwrite: bool, resume: bool
) -> None:
    """Refuse a folder that exists, unless told to go on with it or to replace it."""
    ours = _names(folder, panels)
    check_resumable_folder(
        folder,
        lambda path: path.name in ours and path.is_file(),
        overwrite=overwrite,
        resume=resume,
        kept="the rows that are there",
    )


def check_resumable_folder(
    folder: Path, is_ours: Callable[[Path], bool], *, overwrite: bool, resume: bool, kept: str
) -> None:
    """Refuse a folder in use where nobody said a word about it, and one with other files."""
    check_one_of(overwrite=overwrite, resume=resume, kept=kept)
    if folder.is_dir():
        if not any(folder.iterdir()):
            return
        if not overwrite and not resume:
            raise OutputError(
                f"The folder {folder} exists already.",
                [
                    "Say --resume to go on with it, --overwrite to begin again, or choose "
                    "another."
                ],
            )
    check_folder(folder, overwrite=overwrite or resume, is_ours=is_ours, what="reproduction")


def begin_reproduction(folder: Path, panels: Sequence[Panel], *, overwrite: bool) -> None:
    """Make the folder ready for rows; a file of another experiment is told before any run."""
    names = _names(folder, [panel.name for panel in panels])
    begin_folder(folder, names, overwrite=overwrite)
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
    write_json(folder / SUMMARY, record)


def expected_indices(reproduction: str) -> Mapping[str, Mapping[tuple[Evaluation, str], float]]:
    """Mean c-indices of the stored full run, by panel, evaluation and scheme.

    The paper shows its own in figures without numbers; these are what its sizes gave here.
    """
    stored: dict[str, Any] = json.loads(
        files("fedcox.paper").joinpath("expected.json").read_text(encoding="utf-8")
    )
    return {
        panel: {
            (evaluation, scheme): index
            for evaluation, schemes in evaluations.items()
            for scheme, index in schemes.items()
        }
        for panel, evaluations in stored.get(reproduction, {}).items()
    }


def write_reproduction_run(
    out: Path, reproduction: Reproduction, rows: _Rows, *, command: str
) -> tuple[Compared, tuple[Claim, ...]]:
    """Compare the rows of every panel, check the claims, and write both; then give them."""
    compared = {
        (panel.name, comparison.evaluation): comparison
        for panel in reproduction.panels
        for comparison in compare(
            rows[panel.name], drawn_anew=panel.experiment.problem.drawn_anew
        )
    }
    claims = reproduction.claims(compared)
    write_reproduction(out, reproduction, compared, claims, command=command)
    page = _page(reproduction, rows, claims, command)
    write_evaluation_page(page, out / PAGE)
    return compared, claims


def _page(
    reproduction: Reproduction, rows: _Rows, claims: tuple[Claim, ...], command: str
) -> EvaluationPage:
    expected = expected_indices(reproduction.name)
    return EvaluationPage(
        title=reproduction.title,
        lead=reproduction.lead,
        data=[
            _data(panel, rows[panel.name], expected.get(panel.name, {}))
            for panel in reproduction.panels
        ],
        command=command,
        versions=reproduction.panels[0].experiment.header["versions"],
        reference=reproduction.reference,
        source="fedcox's stored run at the paper's sizes",
        claims=claims,
        claims_note=reproduction.claims_note,
    )


def _data(
    panel: Panel, rows: tuple[Row, ...], expected: Mapping[tuple[Evaluation, str], float]
) -> EvaluatedData:
    experiment = panel.experiment
    return EvaluatedData(
        panel.title,
        rows,
        experiment.problem.cohorts(experiment.seeds[0]),
        panel.unit,
        drawn_anew=experiment.problem.drawn_anew,
        expected=expected,
        notes=panel.notes,
    )


def claims_table(claims: Sequence[Claim], *, title: str, caption: str | None = None) -> Table:
    """One row per claim."""
    table = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        caption=caption,
        caption_justify="left",
    )
    for name in ("statement", "measured", "held"):
        table.add_column(name)
    for claim in claims:
        table.add_row(escape(claim.statement), claim.measured, "yes" if claim.held else "NO")
    return table
