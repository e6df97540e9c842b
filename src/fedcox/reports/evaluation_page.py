"""The page of an evaluation: schemes compared on patients they were not trained on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fedcox.evaluation.comparison import REPLICATES, Claim, Comparison, compare
from fedcox.evaluation.experiment import Experiment
from fedcox.evaluation.result import Evaluation, Row
from fedcox.evaluation.scheme import AbstractScheme
from fedcox.evaluation.schemes import SCHEMES
from fedcox.evaluation.study_experiment import PAGE, write_summary
from fedcox.files.writing import write_atomically
from fedcox.reports.evaluation_figures import (
    FEWEST,
    FEWEST_FOR_BOX,
    BoxPanel,
    Look,
    Sample,
    SamplePanel,
    TimesFigure,
    box_figure,
    times_figure,
)
from fedcox.reports.evaluation_table import (
    EVALUATION_WORDS,
    LEAKS,
    PairLine,
    SchemeLine,
    against,
    data_notes,
    federated_word,
    found_notes,
    pair_line,
    remarks,
    scheme_line,
)
from fedcox.reports.number_text import count_text, percent_text
from fedcox.reports.page import Fact, page_html
from fedcox.survival.cohort import Cohort

_LOOKS: dict[str, Look] = {"yes": "marked", "leaks": "leaks"}


@dataclass(frozen=True, eq=False)
class EvaluatedData:
    """One data set, or one split of it: the rows it gave, and the patients of its centers.

    `drawn_anew` says that every seed simulated patients of its own; `cohorts` are then those
    of one seed, and may be shown one by one. `expected` holds c-indices known beforehand, by
    evaluation and scheme. `notes` are whole sentences on these data.
    """

    title: str
    rows: Sequence[Row]
    cohorts: Mapping[str, Cohort]
    unit: str
    drawn_anew: bool = False
    expected: Mapping[tuple[Evaluation, str], float] = field(default_factory=dict)
    notes: Sequence[str] = ()


@dataclass(frozen=True, eq=False)
class EvaluationPage:
    """What the page is made from.

    Differences are taken to the scheme `reference`, the first one unless named. `source` is
    the caption of the expected values, `claims` say what should have come out, `claims_note`
    how far that was checked. `notes` are whole sentences on how it was done.
    """

    title: str
    lead: str
    data: Sequence[EvaluatedData]
    command: str
    versions: Mapping[str, str]
    reference: str | None = None
    source: str = "expected"
    claims: Sequence[Claim] = ()
    claims_note: str = ""
    notes: Sequence[str] = ()
    schemes: Mapping[str, AbstractScheme] = field(default_factory=lambda: SCHEMES)


@dataclass(frozen=True)
class EvaluatedPanel:
    """One data set under one evaluation: boxes and table."""

    title: str
    boxes: BoxPanel
    reference: str
    lines: tuple[SchemeLine, ...]
    pairs: tuple[PairLine, ...]
    any_expected: bool
    remarks: tuple[str, ...]


def write_evaluation_page(page: EvaluationPage, path: str | Path) -> None:
    """Write the page to `path`, whole or not at all."""
    write_atomically(path, evaluation_html(page))


def evaluation_html(page: EvaluationPage) -> str:
    """The page as text."""
    compared = [
        (data, comparison)
        for data in page.data
        for comparison in compare(data.rows, drawn_anew=data.drawn_anew)
    ]
    both = len({comparison.evaluation for _, comparison in compared}) > 1
    boxes = box_figure(
        [_samples(page, data, notes, both=both) for data, notes in compared], source=page.source
    )
    content = {
        "page": page,
        "facts": _facts(page, [comparison for _, comparison in compared]),
        "boxes": boxes,
        "looks": {row.look for panel in boxes.panels for row in panel.rows},
        "fewest_for_box": FEWEST_FOR_BOX,
        "leaks": LEAKS,
        "panels": [
            _panel(page, data, comparison, drawn)
            for (data, comparison), drawn in zip(compared, boxes.panels, strict=True)
        ],
        "intervals": _intervals([comparison for _, comparison in compared]),
        "times": _times(page),
        "fewest": FEWEST,
        "notes": _notes(page, compared),
        "schemes": _described(page, compared),
    }
    return page_html("evaluation.html.j2", content)


def _samples(
    page: EvaluationPage, data: EvaluatedData, comparison: Comparison, *, both: bool
) -> SamplePanel:
    evaluation = comparison.evaluation
    return SamplePanel(
        _title(page, data, evaluation, both=both),
        [
            Sample(
                summary.scheme,
                [
                    row.c_index
                    for row in data.rows
                    if row.evaluation == evaluation
                    and row.scheme == summary.scheme
                    and row.c_index is not None
                ],
                look=_LOOKS.get(_federated(page, summary.scheme), "plain"),
                expected=data.expected.get((evaluation, summary.scheme)),
            )
            for summary in comparison.schemes
        ],
    )


def _title(
    page: EvaluationPage, data: EvaluatedData, evaluation: Evaluation, *, both: bool
) -> str:
    words = EVALUATION_WORDS[evaluation]
    if len(page.data) == 1:
        return words.capitalize()
    return f"{data.title}: {words}" if both else data.title


def _federated(page: EvaluationPage, scheme: str) -> str:
    return federated_word(page.schemes.get(scheme))


def _facts(page: EvaluationPage, compared: Sequence[Comparison]) -> list[Fact]:
    schemes = {summary.scheme for comparison in compared for summary in comparison.schemes}
    words = [_federated(page, scheme) for scheme in schemes]
    leaking = words.count("leaks")
    federated = f"{words.count('yes') + leaking} of them federated"
    if leaking:
        federated += f", {leaking} of which {'leaks' if leaking == 1 else 'leak'}"
    sizes = [sum(part.patients for part in _counted(data)) for data in page.data]
    centers = [len(data.cohorts) for data in page.data]
    runs = max((comparison.seeds for comparison in compared), default=0)
    indices = sum(row.c_index is not None for data in page.data for row in data.rows)
    return [
        Fact(count_text(len(schemes)), "schemes", federated),
        Fact(
            count_text(len(page.data)),
            "data set" if len(page.data) == 1 else "data sets",
            ", ".join(data.title for data in page.data),
        ),
        Fact(_range(sizes), "patients", _events(page)),
        Fact(_range(centers), "center" if centers == [1] else "centers"),
        Fact(count_text(runs), "run" if runs == 1 else "runs", "each with its own seed"),
        Fact(count_text(indices), "c-indices", "one for each scheme and test set"),
    ]


def _counted(data: EvaluatedData) -> list[Cohort]:
    """Centers whose patients are counted: a sum must not give a small center away."""
    fewest = 1 if data.drawn_anew else FEWEST
    return [part for part in data.cohorts.values() if part.patients >= fewest]


def _events(page: EvaluationPage) -> str:
    """The share with the event, where that counts no few patients, and who is not counted."""
    counted = [part for data in page.data for part in _counted(data)]
    patients = sum(part.patients for part in counted)
    events = sum(int(part.event.sum()) for part in counted)
    fewest = 1 if all(data.drawn_anew for data in page.data) else FEWEST
    words = []
    if fewest > 1 and events < fewest:
        words.append(f"fewer than {fewest} with the event")
    elif patients:
        words.append(f"{percent_text(events / patients)} with the event")
    present = sum(part.patients > 0 for data in page.data for part in data.cohorts.values())
    if len(counted) < present:
        words.append(f"centers of fewer than {fewest} are not counted")
    return "; ".join(words)


def _range(counts: Sequence[int]) -> str:
    low, high = min(counts, default=0), max(counts, default=0)
    return count_text(low) if low == high else f"{count_text(low)}–{count_text(high)}"


def _panel(
    page: EvaluationPage, data: EvaluatedData, comparison: Comparison, drawn: BoxPanel
) -> EvaluatedPanel:
    names = [summary.scheme for summary in comparison.schemes]
    reference = page.reference if page.reference in names else names[0]
    lines = tuple(
        scheme_line(
            summary,
            against(comparison, summary.scheme, reference),
            scheme=page.schemes.get(summary.scheme),
            expected=data.expected.get((comparison.evaluation, summary.scheme)),
        )
        for summary in comparison.schemes
    )
    return EvaluatedPanel(
        drawn.title,
        drawn,
        reference,
        lines,
        tuple(pair_line(difference) for difference in comparison.differences),
        any_expected=any(line.expected for line in lines),
        remarks=tuple(remarks(comparison)),
    )


def _intervals(compared: Sequence[Comparison]) -> list[str]:
    """What the intervals rest on; by evaluation, where that differs."""
    kinds = {comparison.evaluation: comparison.replicates for comparison in compared}
    if len(set(kinds.values())) == 1:
        return [REPLICATES[kind] for kind in set(kinds.values())]
    return [
        f"{EVALUATION_WORDS[evaluation].capitalize()}: {REPLICATES[kind]}"
        for evaluation, kind in kinds.items()
    ]


def _times(page: EvaluationPage) -> list[tuple[str, TimesFigure, bool]]:
    return [
        (
            data.title,
            times_figure(data.cohorts, unit=data.unit, fewest=1 if data.drawn_anew else FEWEST),
            data.drawn_anew,
        )
        for data in page.data
        if any(cohort.patients for cohort in data.cohorts.values())
    ]


def _notes(
    page: EvaluationPage, compared: Sequence[tuple[EvaluatedData, Comparison]]
) -> list[str]:
    """On the whole, on each data set, and what the schemes had to say."""
    several = len(page.data) > 1

    def title(data: EvaluatedData) -> str:
        return data.title if several else ""

    notes = found_notes((title(data), comparison) for data, comparison in compared)
    return [
        *dict.fromkeys(page.notes),
        *data_notes((title(data), data.notes) for data in page.data),
        *(f"{note.who}: {note.text}" for note in notes),
    ]


def _described(
    page: EvaluationPage, compared: Sequence[tuple[EvaluatedData, Comparison]]
) -> list[tuple[str, str]]:
    """What each scheme is, for those that are known."""
    names = dict.fromkeys(
        summary.scheme for _, comparison in compared for summary in comparison.schemes
    )
    return [(name, page.schemes[name].summary) for name in names if name in page.schemes]


def write_evaluation(
    out: Path,
    experiment: Experiment,
    rows: tuple[Row, ...],
    *,
    unit: str,
    notes: Sequence[str],
    command: str,
) -> tuple[Comparison, ...]:
    """Sum up the rows and write the rest of the folder; `notes` are what reading had to say."""
    compared = compare(rows, drawn_anew=experiment.problem.drawn_anew)
    write_summary(out, experiment.header, compared, command=command, notes=notes)
    cohorts = experiment.problem.cohorts(experiment.seeds[0])
    page = EvaluationPage(
        title=experiment.name,
        lead="Learning schemes compared on patients they were not trained on.",
        data=[EvaluatedData(experiment.name, rows, cohorts, unit)],
        command=command,
        versions=experiment.header["versions"],
        notes=notes,
    )
    write_evaluation_page(page, out / PAGE)
    return compared
