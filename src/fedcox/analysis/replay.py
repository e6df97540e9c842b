"""What does this study ask next? Worked out from its plan and the sums so far.

The study itself is run again, against replies that are known, up to the first that is not. So
there is one description of what a study asks, and coordinator and centers share it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fedcox.analysis.fit import estimate
from fedcox.analysis.plan import Plan
from fedcox.errors import InputError
from fedcox.federation.evidence import Evidence
from fedcox.federation.ledger import Ledger
from fedcox.federation.query import AbstractFederation, AbstractQuery
from fedcox.federation.study_check import RoundRecord


@dataclass(frozen=True)
class Replay:
    """A study by its plan, for centers that check what they are asked.

    A study under differential privacy is not checked in this way: its noise covers whatever
    parameters are asked about.
    """

    plan: Plan

    def next_questions(
        self, rounds: Sequence[RoundRecord], centers: frozenset[str]
    ) -> Sequence[AbstractQuery[Any]]:
        """What is asked of `centers` after these rounds; nothing at the study's end."""
        try:
            estimate(self.plan, _Recorded(rounds, centers))
        except _NotRecorded as end:
            return end.queries
        except InputError:
            pass  # the study ended with an error
        return ()


class _NotRecorded(Exception):  # noqa: N818 - where the replay stops, no error
    def __init__(self, queries: Sequence[AbstractQuery[Any]]) -> None:
        self.queries = tuple(queries)


class _Recorded(AbstractFederation):
    """A federation that gives the replies it was given before."""

    shows_centers = False

    def __init__(self, rounds: Sequence[RoundRecord], centers: frozenset[str]) -> None:
        self.ledger = Ledger()
        self._rounds = rounds
        self._names = [tuple(sorted(each.centers)) for each in rounds]
        self._names.append(tuple(sorted(centers)))
        self._asked = 0

    @property
    def names(self) -> tuple[str, ...]:
        return self._names[self._asked]

    def evidence(self) -> Evidence | None:
        return self._rounds[self._asked - 1].evidence

    def ask_together(
        self,
        queries: Sequence[AbstractQuery[Any]],
        each: Sequence[AbstractQuery[Any]] = (),
    ) -> list[Any]:
        if self._asked == len(self._rounds):
            raise _NotRecorded([*queries, *each])
        replies = self._rounds[self._asked].replies
        self._asked += 1
        return [None] * len(queries) if replies is None else list(replies)
