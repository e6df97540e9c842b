"""What does whoever runs a study see? Every center's reply, or only their sum."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

from fedcox.federation.ledger import Ledger
from fedcox.federation.query import AbstractFederation, AbstractQuery, Answer, Federation
from fedcox.federation.setting import Setting

#: The source of a reply where only the sum over centers is seen.
ALL_CENTERS = "all centers"


@dataclass(frozen=True, eq=False)
class Exchange:
    """One question, and what came back from each source."""

    query: AbstractQuery[Any]
    replies: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Observer:
    """A coordinator that looks at replies as closely as it can.

    Where centers are shown, each of them is a source; else there is one, their sum. A center
    that refuses raises `RefusedError`.
    """

    federation: Federation

    def replies(self, query: AbstractQuery[Answer]) -> dict[str, Answer]:
        """The replies to one question by source: one round."""
        if not self.federation.shows_centers:
            return {ALL_CENTERS: self.federation.ask(query)}
        (by_center,) = self.federation.ask_together([], each=[query])
        return dict(by_center)


@dataclass(frozen=True, eq=False)
class Recorder(AbstractFederation):
    """A federation around a federation that keeps every message an ordinary fit gets.

    `settings` holds what was agreed on, refused questions included.
    """

    federation: Federation
    exchanges: list[Exchange] = field(default_factory=list)
    settings: list[Setting] = field(default_factory=list)

    @property
    def names(self) -> tuple[str, ...]:
        return self.federation.names

    @property
    def ledger(self) -> Ledger:
        return self.federation.ledger

    @property
    def shows_centers(self) -> bool:
        return self.federation.shows_centers

    def ask_together(
        self, queries: Sequence[AbstractQuery[Any]], each: Sequence[AbstractQuery[Any]] = ()
    ) -> list[Any]:
        agreed = (query.setting for query in (*queries, *each))
        self.settings.extend(setting for setting in agreed if isinstance(setting, Setting))
        if not self.shows_centers:
            totals = self.federation.ask_together(queries, each)
            for query, total in zip(queries, totals, strict=True):
                self._keep(query, {ALL_CENTERS: total})
            return totals
        # Whoever sees every reply adds them up; asking for all of them shows no more.
        by_query = self.federation.ask_together([], [*queries, *each])
        for query, replies in zip([*queries, *each], by_query, strict=True):
            self._keep(query, replies)
        totals = [
            reduce(query.combine, replies.values())
            for query, replies in zip(queries, by_query, strict=False)
        ]
        return totals + by_query[len(queries) :]

    def _keep(self, query: AbstractQuery[Any], replies: Mapping[str, Any]) -> None:
        self.exchanges.append(Exchange(query, dict(replies)))
