"""The ledger as the page shows it: per question, and per center and question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fedcox.analysis.fitted import FittedStudy
from fedcox.reports.center_choice import choose_centers
from fedcox.reports.number_text import bytes_text, count_text
from fedcox.reports.privacy_ledger import LedgerSummary, Traffic, summarise

# Replies that are not sums over patients must not pass as sums.
PATIENT_LEVEL: Mapping[str, str] = {
    "longest follow-up": "not a sum: the time of one patient in each center",
    "distinct event times": "not a sum: the event times of single patients",
}
IN_PLAIN_WORDS: Mapping[str, str] = {
    "covariate sums": "how many values each column has, and their sum",
    "covariate scatter": "how the columns vary around the joint means, and together",
    "interval counts": "patients at risk and events in each interval",
    "gradient": "the slope of the log-likelihood at the current estimate",
    "diagonal": "slope, and the diagonal of the curvature",
    "block": "slope, and the curvature without the time-by-covariate part",
    "hessian": "slope and curvature of the log-likelihood at the current estimate",
    "information": "the expected curvature, from which standard errors come",
}


@dataclass(frozen=True)
class QuestionRow:
    """One question: how often a center was asked, and what all centers together sent."""

    query: str
    words: str
    remark: str
    times: str
    numbers_up: str
    bytes_up: str
    bytes_down: str


@dataclass(frozen=True)
class SenderRow:
    """One center, or the sum of several: numbers sent per question, and in all."""

    name: str
    numbers: tuple[str, ...]
    numbers_up: str
    bytes_up: str
    bytes_down: str


@dataclass(frozen=True)
class LedgerTable:
    questions: tuple[QuestionRow, ...]
    total: QuestionRow
    senders: tuple[SenderRow, ...]
    patient_level: bool


def ledger_table(fitted: FittedStudy) -> LedgerTable | None:
    """What left the centers, or None where the fit came without its ledger."""
    if not fitted.ledger:
        return None
    summary = summarise(fitted.ledger)
    return LedgerTable(
        questions=tuple(
            _question(query, summary.of_query(query), len(summary.centers))
            for query in summary.queries
        ),
        total=_question("all questions", summary.total, len(summary.centers)),
        senders=_senders(fitted, summary),
        patient_level=any(query in PATIENT_LEVEL for query in summary.queries),
    )


def _question(query: str, traffic: Traffic, centers: int) -> QuestionRow:
    return QuestionRow(
        query=query,
        words=IN_PLAIN_WORDS.get(query.removesuffix(" of a batch"), ""),
        remark=PATIENT_LEVEL.get(query, ""),
        times=count_text(round(traffic.times / centers, 1)),
        numbers_up=count_text(traffic.numbers_up),
        bytes_up=bytes_text(traffic.bytes_up),
        bytes_down=bytes_text(traffic.bytes_down),
    )


def _senders(fitted: FittedStudy, summary: LedgerSummary) -> tuple[SenderRow, ...]:
    choice = choose_centers(fitted.centers)
    rows = [_sender(row.name, [row.name], summary) for row in choice.shown]
    if choice.rest:
        rest = [row.name for row in choice.rest]
        rows.append(_sender(choice.rest_name, rest, summary))
    return tuple(rows)


def _sender(name: str, centers: Sequence[str], summary: LedgerSummary) -> SenderRow:
    per_query = [
        sum((summary.of(center, query) for center in centers), Traffic())
        for query in summary.queries
    ]
    whole = sum(per_query, Traffic())
    return SenderRow(
        name=name,
        numbers=tuple(count_text(traffic.numbers_up) for traffic in per_query),
        numbers_up=count_text(whole.numbers_up),
        bytes_up=bytes_text(whole.bytes_up),
        bytes_down=bytes_text(whole.bytes_down),
    )
