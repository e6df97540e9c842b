"""The ledger as the page shows it: per question, and per center and question."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fedcox.federation.queries import patient_level, words_of_queries
from fedcox.reports.center_choice import choose_centers
from fedcox.reports.number_text import DASH, bound_text, bytes_text, count_text
from fedcox.reports.privacy_ledger import LedgerSummary, Traffic, summarise
from fedcox.reports.protection import PROTECTIONS, protection_of, weaker_questions
from fedcox.study.fitted import FittedStudy

_KEYS = {"key set-up": "public keys and sealed shares of secrets, about no patient"}


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
    protection: str
    epsilon: str


@dataclass(frozen=True)
class SenderRow:
    """One center, or the sum of several: numbers sent per question, and in all.

    `remark` tells of a center that stopped answering before the end.
    """

    name: str
    remark: str
    numbers: tuple[str, ...]
    numbers_up: str
    bytes_up: str
    bytes_down: str
    protection: str
    epsilon: str


@dataclass(frozen=True)
class LedgerTable:
    """`weaker` names questions that were protected less than the fit as a whole."""

    questions: tuple[QuestionRow, ...]
    total: QuestionRow
    senders: tuple[SenderRow, ...]
    patient_level: bool
    weaker: tuple[str, ...]
    any_epsilon: bool


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
        patient_level=any(query in patient_level() for query in summary.queries),
        weaker=weaker_questions(summary, protection_of(fitted)),
        any_epsilon=summary.total.epsilon is not None,
    )


def _question(query: str, traffic: Traffic, centers: int) -> QuestionRow:
    words = {**words_of_queries(), **_KEYS}.get(query, "")
    # Replies that are not sums over patients must not pass as sums.
    single = query in patient_level()
    return QuestionRow(
        query=query,
        words="" if single else words,
        remark=f"not a sum: {words}" if single else "",
        times=count_text(round(traffic.times / centers, 1)),
        numbers_up=count_text(traffic.numbers_up),
        bytes_up=bytes_text(traffic.bytes_up),
        bytes_down=bytes_text(traffic.bytes_down),
        protection=_protection_text(traffic),
        epsilon=_epsilon_text(traffic),
    )


def _protection_text(traffic: Traffic) -> str:
    known = [name for name in PROTECTIONS if name in traffic.protections]
    return " or ".join([*known, *sorted(traffic.protections.difference(PROTECTIONS))]) or DASH


def _epsilon_text(traffic: Traffic) -> str:
    return DASH if traffic.epsilon is None else bound_text(traffic.epsilon)


def _senders(fitted: FittedStudy, summary: LedgerSummary) -> tuple[SenderRow, ...]:
    choice = choose_centers(fitted.centers)
    rows = [_sender(row.name, [row.name], summary) for row in choice.shown]
    if choice.rest:
        rest = [row.name for row in choice.rest]
        rows.append(_sender(choice.rest_name, rest, summary))
    present = {row.name for row in fitted.centers}
    rows.extend(
        _sender(name, [name], summary, remark="stopped answering")
        for name in summary.centers
        if name not in present
    )
    return tuple(rows)


def _sender(
    name: str, centers: Sequence[str], summary: LedgerSummary, *, remark: str = ""
) -> SenderRow:
    per_query = [summary.of_centers(centers, query) for query in summary.queries]
    whole = Traffic.together(per_query)
    return SenderRow(
        name=name,
        remark=remark,
        numbers=tuple(count_text(traffic.numbers_up) for traffic in per_query),
        numbers_up=count_text(whole.numbers_up),
        bytes_up=bytes_text(whole.bytes_up),
        bytes_down=bytes_text(whole.bytes_down),
        protection=_protection_text(whole),
        epsilon=_epsilon_text(whole),
    )
