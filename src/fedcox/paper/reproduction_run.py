"""What a reproduction leaves on disk beside its rows: the record and the page."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from fedcox.evaluation.comparison import Claim, compare
from fedcox.evaluation.result import Evaluation, Row
from fedcox.paper.reproduction import Compared, Panel, Reproduction
from fedcox.paper.reproduction_folder import PAGE, expected_indices, write_reproduction
from fedcox.reports.evaluation_page import (
    EvaluatedData,
    EvaluationPage,
    write_evaluation_page,
)

_Rows = Mapping[str, tuple[Row, ...]]


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
