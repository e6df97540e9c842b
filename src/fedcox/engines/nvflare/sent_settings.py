"""Which settings do the centers have already? Each goes to them once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from weakref import WeakSet

from fedcox.engines.codec.questions import encode_questions, settings_brought
from fedcox.engines.codec.tree import to_bytes
from fedcox.federation.query import AbstractQuery, Agreed


class SentSettings:
    """What questions of a run referred to so far."""

    def __init__(self) -> None:
        self._names: set[bytes] = set()
        self._told: WeakSet[Agreed] = WeakSet()

    def encoded(self, queries: Sequence[AbstractQuery[Any]]) -> bytes:
        """Questions for all centers, with the settings that no earlier ones brought."""
        tree = encode_questions(queries, self._names)
        self._names.update(settings_brought(tree))
        return to_bytes(tree)

    def numbers(self, query: AbstractQuery[Any]) -> int:
        """Numbers that go to the centers with the first question about a setting."""
        if query.setting is None or query.setting in self._told:
            return 0
        self._told.add(query.setting)
        return query.setting.numbers
