"""Who is still there? A study is about the same patients from its first number to its last."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fedcox.federation.ledger import Ledger
from fedcox.federation.query import AbstractFederation, AbstractQuery, Federation
from fedcox.survival.cohort import FloatArray


class CentersLostError(Exception):
    """A center stopped answering; what was found so far is about other patients."""


class RestartOnLoss(AbstractFederation):
    """A federation that says so when a center is lost, and knows where it was asked last."""

    def __init__(self, federation: Federation) -> None:
        self._federation = federation
        self.names = federation.names
        self.shows_centers = federation.shows_centers
        self.in_one_process = federation.in_one_process
        self.point: tuple[FloatArray, FloatArray] | None = None

    @property
    def ledger(self) -> Ledger:
        return self._federation.ledger

    def ask_together(
        self,
        queries: Sequence[AbstractQuery[Any]],
        each: Sequence[AbstractQuery[Any]] = (),
    ) -> list[Any]:
        for query in queries:
            if query.point is not None:
                self.point = query.point
        answers = self._federation.ask_together(queries, each)
        if self._federation.names != self.names:
            self.names = self._federation.names
            raise CentersLostError
        return answers
