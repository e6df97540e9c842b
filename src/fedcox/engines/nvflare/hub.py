"""A federation over centers on other machines, whose single replies the coordinator sees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from itertools import accumulate
from typing import Any

from fedcox.engines.nvflare.replies import Reply, read_replies
from fedcox.engines.nvflare.sent_settings import SentSettings
from fedcox.engines.nvflare.switchboard import Switchboard
from fedcox.federation.ledger import Ledger
from fedcox.federation.query import AbstractFederation, AbstractPrivateQuery, AbstractQuery


class Hub(AbstractFederation):
    """Asks every center that is left and combines in the order of names, as one process does.

    So the result is that of one process to the last bit. `patients` says how many each center
    has; by it they are numbered through, for batches over all of them. It is not known under
    noise, where nobody needs it.
    """

    shows_centers = True

    def __init__(
        self, switchboard: Switchboard, columns: int, patients: Mapping[str, int] | None
    ) -> None:
        self.ledger = Ledger()
        self._switchboard, self._columns, self._patients = switchboard, columns, patients
        self._sent = SentSettings()

    @property
    def names(self) -> tuple[str, ...]:
        return self._switchboard.names

    def ask_together(
        self,
        queries: Sequence[AbstractQuery[Any]],
        each: Sequence[AbstractQuery[Any]] = (),
    ) -> list[Any]:
        asked = [*queries, *each]
        self.ledger.open_round()
        questions = self._sent.encoded(asked)
        firsts = self._first_numbers()
        replies = self._switchboard.ask(
            "ask",
            {
                name: {
                    "questions": questions,
                    "first": firsts[name],
                    "centers": list(self.names),
                }
                for name in self.names
            },
            lambda _, told: read_replies(asked, told, self._columns),
            tuple(query.name for query in asked),
        )
        down = [query.numbers + self._sent.numbers(query) for query in asked]
        for place, query in enumerate(asked):
            for name, found in replies.items():
                self._record(name, query, found[place], down[place])
        combined = [
            reduce(query.combine, (found[place].answer for found in replies.values()))
            for place, query in enumerate(queries)
        ]
        return combined + [
            {name: found[place].answer for name, found in replies.items()}
            for place in range(len(queries), len(asked))
        ]

    def _first_numbers(self) -> dict[str, int | None]:
        """Where each center's patients begin when they are numbered over those left."""
        if self._patients is None:
            return dict.fromkeys(self.names)
        counts = [self._patients[name] for name in self.names]
        return dict(zip(self.names, accumulate([0, *counts]), strict=False))

    def _record(self, name: str, query: AbstractQuery[Any], reply: Reply, down: int) -> None:
        self.ledger.record(
            name,
            query.name,
            query.numbers_in(reply.answer),
            down,
            bytes_up=query.bytes_in(reply.answer),
            protection="noise" if isinstance(query, AbstractPrivateQuery) else "none",
            epsilon=reply.epsilon,
        )
