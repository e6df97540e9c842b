"""What an evaluation leaves on disk beside its rows: the summary and the page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fedcox.evaluation.comparison import Comparison, compare
from fedcox.evaluation.experiment import Experiment
from fedcox.evaluation.result import Row
from fedcox.evaluation.study_experiment import PAGE, write_summary
from fedcox.reports.evaluation_page import (
    EvaluatedData,
    EvaluationPage,
    write_evaluation_page,
)


def write_evaluation(
    out: Path,
    experiment: Experiment,
    rows: tuple[Row, ...],
    *,
    unit: str,
    told: Sequence[str],
    command: str,
) -> tuple[Comparison, ...]:
    """Sum up the rows and write the rest of the folder; `told` is what reading had to say."""
    compared = compare(rows, drawn_anew=experiment.problem.drawn_anew)
    write_summary(out, experiment.header, compared, command=command, notes=told)
    cohorts = experiment.problem.cohorts(experiment.seeds[0])
    page = EvaluationPage(
        title=experiment.name,
        lead="Learning schemes compared on patients they were not trained on.",
        data=[EvaluatedData(experiment.name, rows, cohorts, unit)],
        command=command,
        versions=experiment.header["versions"],
        notes=told,
    )
    write_evaluation_page(page, out / PAGE)
    return compared
