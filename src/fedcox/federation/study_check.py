"""Does a study ask this next? What a center keeps, to see for itself.

Every solver decides what to ask by the sums so far, and by nothing else. A center that knows
the study and adds up every round again can tell what comes next, so a coordinator cannot choose
parameters, grids or details by itself.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from fedcox.errors import RefusedError, SecureSumError
from fedcox.federation.evidence import Evidence
from fedcox.federation.masked_numbers import decode, round_digest
from fedcox.federation.queries.interval_counts import IntervalCounts
from fedcox.federation.query import AbstractQuery
from fedcox.federation.same_question import same_questions

if TYPE_CHECKING:
    from fedcox.privacy.party import Party


@dataclass(frozen=True, eq=False)
class RoundRecord:
    """One round: which centers were asked, and the combined replies.

    There are none where a center was lost in it: whatever they were, the study began anew.
    """

    centers: frozenset[str]
    replies: tuple[Any, ...] | None
    evidence: Evidence | None = None


class StudyCheck(Protocol):
    """A study as it would go on after these rounds."""

    def next_questions(
        self, rounds: Sequence[RoundRecord], centers: frozenset[str]
    ) -> Sequence[AbstractQuery[Any]]:
        """What is asked of `centers` next; nothing where the study is at its end."""
        ...


@dataclass(frozen=True, eq=False)
class _Answered:
    """A round that was answered, and whose sum is not known yet."""

    queries: tuple[AbstractQuery[Any], ...]
    lengths: tuple[int, ...]
    centers: frozenset[str]


class StudyPath:
    """The rounds of one study as one center saw them, each added up again by itself."""

    def __init__(self) -> None:
        self._rounds: list[RoundRecord] = []
        self._open: _Answered | None = None
        self._left: frozenset[str] | None = None  # asked last; no other can be asked now

    def check(
        self,
        study: StudyCheck,
        queries: Sequence[AbstractQuery[Any]],
        centers: Collection[str],
        previous: bytes | None,
        party: Party,
    ) -> None:
        """Raise if the study does not ask this now.

        `previous` is the transcript of the round before.
        """
        asked = frozenset(centers)
        if self._left is not None and not asked <= self._left:
            # Sums with and without a center are those of that center.
            raise _refused("a center that was lost is asked again")
        if self._open is not None:
            self._rounds.append(_closed(self._open, asked, previous, party))
            self._open = None
        self._left = asked
        if not same_questions(queries, study.next_questions(self._rounds, asked)):
            raise _refused("this is not what the study asks next")

    def answered(
        self,
        queries: Sequence[AbstractQuery[Any]],
        lengths: Sequence[int],
        centers: Collection[str],
    ) -> None:
        """Keep what was answered until its sum is shown."""
        self._open = _Answered(tuple(queries), tuple(lengths), frozenset(centers))


def evidence_of(
    queries: Sequence[AbstractQuery[Any]], transcript: bytes | None
) -> Evidence | None:
    """Of a round that ended with a life table; none if a center vanished in it."""
    *others, last = queries
    if not isinstance(last, IntervalCounts) or last.reading != "include" or transcript is None:
        return None
    return Evidence(last.grid, tuple(query.digest for query in others), transcript)


def _closed(
    last: _Answered, asked: frozenset[str], previous: bytes | None, party: Party
) -> RoundRecord:
    if asked != last.centers:
        return RoundRecord(last.centers, None)
    if previous is None:
        raise _refused("the sum of the last round is not shown")
    question = round_digest(query.digest for query in last.queries)
    try:
        total = party.checked_total(previous, question, last.centers)
    except SecureSumError as error:
        reason = error.subject.removesuffix(".")
        raise _refused(f"the sum of the last round cannot be checked: {reason}") from error
    if total.size != sum(last.lengths):
        raise _refused("the sum of the last round is not as long as the replies to it")
    parts = np.split(total, np.cumsum(last.lengths)[:-1])
    replies = tuple(map(decode, last.queries, parts))
    return RoundRecord(last.centers, replies, evidence_of(last.queries, previous))


def _refused(reason: str) -> RefusedError:
    return RefusedError("The study is not followed.", [f"[questions] study: {reason}."])
