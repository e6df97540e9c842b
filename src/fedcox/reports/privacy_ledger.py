"""What left each center: the ledger's file, its sums per center and query, and its tables."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from fedcox.errors import InputError
from fedcox.federation.ledger import LedgerRow
from fedcox.federation.queries import patient_level, words_of_queries
from fedcox.files.writing import write_atomically
from fedcox.reports.counts_figure import choose_centers, known_sizes
from fedcox.reports.number_text import DASH, bound_text, bytes_text, count_text
from fedcox.study.fitted import FittedStudy

#: The ledger's words, from the least protected to the most. Others, as of keys, are no replies.
PROTECTIONS = ("none", "masks", "noise", "masks and noise")
_KEYS = {"key set-up": "public keys and sealed shares of secrets, about no patient"}


@dataclass(frozen=True)
class Traffic:
    """How often something was asked, how much went to and from the coordinator, how protected.

    `epsilon` is spent once by a whole study, however many replies it has.
    """

    times: int = 0
    numbers_up: int = 0
    bytes_up: int = 0
    numbers_down: int = 0
    bytes_down: int = 0
    protections: frozenset[str] = frozenset()
    epsilon: float | None = None

    @classmethod
    def together(cls, parts: Iterable[Traffic]) -> Traffic:
        """Any number as one; none of them is nothing."""
        many = tuple(parts)
        epsilons = (part.epsilon for part in many if part.epsilon is not None)
        return cls(
            sum(part.times for part in many),
            sum(part.numbers_up for part in many),
            sum(part.bytes_up for part in many),
            sum(part.numbers_down for part in many),
            sum(part.bytes_down for part in many),
            frozenset[str]().union(*{part.protections for part in many}),
            max(epsilons, default=None),
        )

    @classmethod
    def of(cls, row: LedgerRow) -> Traffic:
        """One reply."""
        return cls(
            1,
            row.numbers_up,
            row.bytes_up,
            row.numbers_down,
            row.bytes_down,
            frozenset((row.protection,)),
            row.epsilon,
        )


@dataclass(frozen=True)
class LedgerSummary:
    """Sums of a ledger; centers and queries stand in the order they first appear in."""

    cells: Mapping[tuple[str, str], Traffic]
    centers: tuple[str, ...]
    queries: tuple[str, ...]

    def of(self, center: str, query: str) -> Traffic:
        return self.cells.get((center, query), Traffic())

    def of_center(self, center: str) -> Traffic:
        return Traffic.together(self.of(center, query) for query in self.queries)

    def of_query(self, query: str) -> Traffic:
        return self.of_centers(self.centers, query)

    def of_centers(self, centers: Iterable[str], query: str) -> Traffic:
        return Traffic.together(self.of(center, query) for center in centers)

    @cached_property
    def total(self) -> Traffic:
        return Traffic.together(self.cells.values())


def summarise(rows: Iterable[LedgerRow]) -> LedgerSummary:
    """Add up a ledger per center and query."""
    replies: dict[tuple[str, str], list[Traffic]] = {}
    for row in rows:
        replies.setdefault((row.center, row.query), []).append(Traffic.of(row))
    cells = {key: Traffic.together(traffic) for key, traffic in replies.items()}
    return LedgerSummary(
        cells,
        centers=tuple(dict.fromkeys(center for center, _ in cells)),
        queries=tuple(dict.fromkeys(query for _, query in cells)),
    )


def write_ledger(rows: Iterable[LedgerRow], path: str | Path) -> None:
    """Write one JSON object per line, whole or not at all."""
    write_atomically(path, (json.dumps(row._asdict()) + "\n" for row in rows))


def read_ledger(path: str | Path) -> tuple[LedgerRow, ...]:
    """Read a ledger.jsonl back; a line that is none is named by its number."""
    try:
        with Path(path).open(encoding="utf-8") as file:
            return tuple(_rows(file, path))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"Cannot read {path}: {getattr(error, 'strerror', None) or 'it is not UTF-8'}.",
            ["Give the ledger.jsonl that `fedcox fit` wrote beside its fit.json."],
        ) from error


def _rows(lines: Iterable[str], path: str | Path) -> Iterator[LedgerRow]:
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
            record.pop("smallest_group", None)  # which earlier versions wrote
            yield LedgerRow(**record)
        except (AttributeError, TypeError, ValueError) as error:
            raise InputError(
                f"Line {number} of {path} is not a row of a ledger.",
                ["Give the ledger.jsonl that `fedcox fit` wrote beside its fit.json."],
            ) from error


def protection_of(fitted: FittedStudy) -> str:
    """The protection of the fit as a whole, in the ledger's words."""
    if fitted.guarantee is not None:
        return "masks and noise" if fitted.guarantee.masked else "noise"
    return "none" if known_sizes(fitted.centers) is not None else "masks"


def weaker_questions(summary: LedgerSummary, protection: str) -> tuple[str, ...]:
    """Questions of which some reply was protected less than the fit as a whole."""
    less = frozenset(PROTECTIONS[: PROTECTIONS.index(protection)])
    return tuple(
        query for query in summary.queries if summary.of_query(query).protections & less
    )


@dataclass(frozen=True)
class TrafficRow:
    """What all centers sent for one question, or one center, or several, for all of them.

    `words` say what a question asks, `times` how often a center was asked, `numbers` what a
    center sent for each question. `remark` is what must not be missed: a reply that is no sum,
    a center that stopped answering.
    """

    name: str
    numbers_up: str
    bytes_up: str
    bytes_down: str
    protection: str
    epsilon: str
    words: str = ""
    times: str = ""
    remark: str = ""
    numbers: tuple[str, ...] = ()

    @classmethod
    def of(cls, name: str, traffic: Traffic, **more: Any) -> TrafficRow:
        return cls(
            name,
            count_text(traffic.numbers_up),
            bytes_text(traffic.bytes_up),
            bytes_text(traffic.bytes_down),
            _protection_text(traffic),
            DASH if traffic.epsilon is None else bound_text(traffic.epsilon),
            **more,
        )


@dataclass(frozen=True)
class LedgerTable:
    """`weaker` names questions that were protected less than the fit as a whole."""

    questions: tuple[TrafficRow, ...]
    total: TrafficRow
    senders: tuple[TrafficRow, ...]
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


def _question(query: str, traffic: Traffic, centers: int) -> TrafficRow:
    words = {**words_of_queries(), **_KEYS}.get(query, "")
    # Replies that are not sums over patients must not pass as sums.
    single = query in patient_level()
    return TrafficRow.of(
        query,
        traffic,
        words="" if single else words,
        remark=f"not a sum: {words}" if single else "",
        times=count_text(round(traffic.times / centers, 1)),
    )


def _protection_text(traffic: Traffic) -> str:
    known = [name for name in PROTECTIONS if name in traffic.protections]
    return " or ".join([*known, *sorted(traffic.protections.difference(PROTECTIONS))]) or DASH


def _senders(fitted: FittedStudy, summary: LedgerSummary) -> tuple[TrafficRow, ...]:
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
) -> TrafficRow:
    per_query = [summary.of_centers(centers, query) for query in summary.queries]
    numbers = tuple(count_text(traffic.numbers_up) for traffic in per_query)
    return TrafficRow.of(name, Traffic.together(per_query), remark=remark, numbers=numbers)
