"""Secure sums over centers on other machines: what `Masked` needs to reach them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from fedcox.engines.codec.tree import Tree
from fedcox.engines.nvflare.messages import Step, table
from fedcox.engines.nvflare.replies import read_epsilons
from fedcox.engines.nvflare.sent_settings import SentSettings
from fedcox.engines.nvflare.switchboard import Switchboard
from fedcox.errors import MessageError, SecureSumError
from fedcox.federation.masked_center import MaskedReply
from fedcox.federation.query import AbstractQuery

if TYPE_CHECKING:
    from fedcox.privacy.secure_sum import Check


class SwitchboardCarrier:
    """Brings the messages of secure sums to the centers of a run.

    A center that fails, or whose message cannot be used, is left out of the replies, and
    `Masked` sums over the others as far as the protocol allows; the switchboard stops the run
    where the study needs it.
    """

    def __init__(self, switchboard: Switchboard) -> None:
        self._switchboard = switchboard
        self._sent = SentSettings()
        self._check: Check | None = None

    def check_by(self, check: Check) -> None:
        self._check = check

    def exchange(self, step: str, messages: Mapping[str, bytes]) -> dict[str, bytes]:
        bodies: dict[str, Tree] = dict(self._reachable(messages))
        return self._switchboard.ask(cast(Step, step), bodies, self._checked)

    def ask(
        self, names: Sequence[str], queries: Sequence[AbstractQuery[Any]], round_number: int
    ) -> dict[str, MaskedReply]:
        body: dict[str, Tree] = {
            "questions": self._sent.encoded(queries),
            "round": round_number,
            "centers": list(names),
        }
        replies = self._switchboard.ask(
            "masked",
            self._reachable(dict.fromkeys(names, body)),
            lambda name, told: self._masked(name, told, len(queries)),
            tuple(query.name for query in queries),
        )
        return self._of_one_length(replies)

    def _reachable(self, messages: Mapping[str, Tree]) -> dict[str, Tree]:
        """Those that did not fail before; a center that did is out of the run."""
        left = self._switchboard.names
        return {name: message for name, message in messages.items() if name in left}

    def _masked(self, name: str, told: Tree, questions: int) -> MaskedReply:
        body = table(told, "lengths", "message", "epsilons")
        lengths = body["lengths"]
        if not isinstance(lengths, list) or len(lengths) != questions:
            raise MessageError("The lengths of its replies are not those of the questions.")
        if not all(type(length) is int and length >= 0 for length in lengths):
            raise MessageError("A length is a number of integers.")
        message = self._checked(name, body["message"])
        return MaskedReply(tuple(lengths), message, read_epsilons(body["epsilons"], questions))

    def _checked(self, name: str, told: Tree) -> bytes:
        """A message of secure sums; the fault of one that cannot be used is its center's."""
        if not isinstance(told, bytes):
            raise MessageError("Bytes are expected.")
        try:
            if self._check is not None:
                self._check(name, told)
        except SecureSumError as error:
            raise MessageError(error.subject, error.faults) from error
        return told

    def _of_one_length(self, replies: Mapping[str, MaskedReply]) -> dict[str, MaskedReply]:
        """Those as long as the replies of more than half; without such, nobody is to blame."""
        sizes = {name: (reply.lengths, len(reply.message)) for name, reply in replies.items()}
        usual, number = Counter(sizes.values()).most_common(1)[0] if sizes else (None, 0)
        others = [name for name, size in sizes.items() if size != usual]
        if not others or 2 * number <= len(sizes):
            return dict(replies)
        for name in others:
            self._switchboard.drop(name, "its reply is not as long as those of the others")
        self._switchboard.check_number()
        return {name: reply for name, reply in replies.items() if name not in others}
