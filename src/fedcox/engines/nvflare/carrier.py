"""Secure sums over centers on other machines: what `Masked` needs to reach them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from fedcox.engines.codec.tree import Tree
from fedcox.engines.nvflare.messages import Step, table
from fedcox.engines.nvflare.replies import read_noted
from fedcox.engines.nvflare.sent_settings import SentSettings
from fedcox.engines.nvflare.switchboard import Switchboard
from fedcox.errors import MessageError
from fedcox.federation.masked_center import MaskedReply
from fedcox.federation.query import AbstractQuery

_Noted = list[tuple[int | None, float | None]]


class SwitchboardCarrier:
    """Brings the messages of secure sums to the centers of a run.

    A center that fails is left out of the replies, and `Masked` sums over the others as far as
    the protocol allows; the switchboard stops the run where the study needs it.
    """

    def __init__(self, switchboard: Switchboard) -> None:
        self._switchboard = switchboard
        self._sent = SentSettings()
        self._noted: dict[tuple[str, bytes], tuple[int | None, float | None]] = {}

    def exchange(self, step: str, messages: Mapping[str, bytes]) -> dict[str, bytes]:
        bodies: dict[str, Tree] = dict(self._reachable(messages))
        return self._switchboard.ask(cast(Step, step), bodies, lambda _, told: _bytes(told))

    def ask(
        self,
        names: Sequence[str],
        queries: Sequence[AbstractQuery[Any]],
        round_number: int,
        previous: bytes | None,
    ) -> dict[str, MaskedReply]:
        body: dict[str, Tree] = {
            "questions": self._sent.encoded(queries),
            "round": round_number,
            "centers": list(names),
            "previous": previous,
        }
        replies = self._switchboard.ask(
            "masked",
            self._reachable(dict.fromkeys(names, body)),
            lambda _, told: _masked(told, len(queries)),
            tuple(query.name for query in queries),
        )
        self._noted = {
            (name, query.digest): note
            for name, (_, noted) in replies.items()
            for query, note in zip(queries, noted, strict=True)
        }
        return {name: reply for name, (reply, _) in replies.items()}

    def noted(self, name: str, query: AbstractQuery[Any]) -> tuple[int | None, float | None]:
        return self._noted.get((name, query.digest), (None, None))

    def _reachable(self, messages: Mapping[str, Tree]) -> dict[str, Tree]:
        """Those that did not fail before; a center that did is out of the run."""
        left = self._switchboard.names
        return {name: message for name, message in messages.items() if name in left}


def _bytes(told: Tree) -> bytes:
    if not isinstance(told, bytes):
        raise MessageError("Bytes are expected.")
    return told


def _masked(told: Tree, questions: int) -> tuple[MaskedReply, _Noted]:
    body = table(told, "lengths", "message", "noted")
    lengths = body["lengths"]
    if not isinstance(lengths, list) or len(lengths) != questions:
        raise MessageError("The lengths of its replies are not those of the questions.")
    if not all(type(length) is int and length >= 0 for length in lengths):
        raise MessageError("A length is a number of integers.")
    reply = MaskedReply(tuple(lengths), _bytes(body["message"]))
    return reply, read_noted(body["noted"], questions)
