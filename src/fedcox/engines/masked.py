"""A federation in which only sums over centers are seen: every reply leaves under a mask.

A round has one masked message per center and one short release, by which the sum of exactly
those that answered is opened. A center that stops answering in between is left out of the sum
and of all later ones. `MaskedCenters` is the part that differs between one process and a
network.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from fedcox.errors import SecureSumError
from fedcox.federation.ledger import Ledger
from fedcox.federation.masked_center import (
    MaskedCenter,
    MaskedReply,
    smallest_sum,
    total_answer,
)
from fedcox.federation.query import (
    AbstractFederation,
    AbstractPrivateQuery,
    AbstractQuery,
    Federation,
)

if TYPE_CHECKING:
    from fedcox.privacy.identity import PublicIdentity
    from fedcox.privacy.secure_sum import Check


class MaskedCenters(Protocol):
    """Brings messages to centers and replies back; who does not answer in time is left out."""

    def check_by(self, check: Check) -> None:
        """How to tell a message of secure sums that cannot be used, before the first one.

        Its center may then be left out as one that does not answer; handed on, it is raised.
        """
        ...

    def exchange(self, step: str, messages: Mapping[str, bytes]) -> dict[str, bytes]:
        """One step of the protocol: a message to each named center."""
        ...

    def ask(
        self, shares: Mapping[str, bytes], queries: Sequence[AbstractQuery[Any]], number: int
    ) -> dict[str, MaskedReply]:
        """The questions of one round to the named centers, masked against each other.

        Each with the `shares` for it, which are empty but in the first round.
        """
        ...


class LocalMaskedCenters:
    """Every center in this process: to simulate, to test, to see what would be sent."""

    def __init__(self, centers: Sequence[MaskedCenter]) -> None:
        self.centers = {center.name: center for center in centers}

    def check_by(self, check: Check) -> None:
        """Nothing is altered on the way within a process: a fault is raised, nobody lost."""

    def exchange(self, step: str, messages: Mapping[str, bytes]) -> dict[str, bytes]:
        return {
            name: self.centers[name].sums.handle(step, message)
            for name, message in messages.items()
        }

    def ask(
        self, shares: Mapping[str, bytes], queries: Sequence[AbstractQuery[Any]], number: int
    ) -> dict[str, MaskedReply]:
        return {
            name: self.centers[name].reply(queries, number, tuple(shares), own)
            for name, own in shares.items()
        }


class Masked(AbstractFederation):
    """Asks centers and sees nothing but sums over them."""

    shows_centers = False

    def __init__(
        self,
        study: str,
        known: Mapping[str, PublicIdentity],
        centers: MaskedCenters,
        *,
        smallest_sum: int = 3,
    ) -> None:
        from fedcox.privacy.secure_sum import SecureSum

        self.ledger = Ledger()
        self._centers = centers
        self._sums = SecureSum(study, known, centers.exchange, smallest_sum=smallest_sum)
        centers.check_by(self._sums.check)
        self._sums.set_up()

    @classmethod
    def around(cls, federation: Federation, *, study: str = "study") -> Masked:
        """The same centers of this process under masks, with identities made for this run.

        None of them takes part in a sum without one of the others, as between hospitals whose
        study says nothing on attendance.
        """
        from fedcox.privacy.identity import Identity
        from fedcox.privacy.secure_sum_center import SecureSumCenter

        centers = federation.centers
        identities = {center.name: Identity.create() for center in centers}
        known = {name: identity.public for name, identity in identities.items()}
        masked = [
            MaskedCenter(
                center,
                SecureSumCenter(
                    center.name,
                    study,
                    identities[center.name],
                    known,
                    smallest_sum=max(smallest_sum(center), len(centers)),
                ),
            )
            for center in centers
        ]
        return cls(study, known, LocalMaskedCenters(masked))

    @property
    def names(self) -> tuple[str, ...]:
        return self._sums.centers

    def ask_together(
        self,
        queries: Sequence[AbstractQuery[Any]],
        each: Sequence[AbstractQuery[Any]] = (),
    ) -> list[Any]:
        if each:
            raise SecureSumError(
                "Single centers' replies cannot be seen under secure sums.",
                ["Ask for the sum over centers."],
            )
        self.ledger.open_round()
        if self.ledger.rounds == 1:
            self._record_set_up()
        replies: dict[str, MaskedReply] = {}

        def collect(number: int, shares: Mapping[str, bytes]) -> Mapping[str, bytes]:
            replies.clear()  # of a round that could not be completed
            replies.update(self._centers.ask(shares, queries, number))
            return {name: reply.message for name, reply in replies.items()}

        asked = b"".join([query.digest for query in queries])
        total = self._sums.sum(asked, collect).total
        lengths = {reply.lengths for reply in replies.values()}
        if len(lengths) != 1 or sum(min(lengths)) != total.size:
            raise SecureSumError(
                "Centers gave replies of different lengths to the same question.",
                ["They do not run the same study; compare their study files and versions."],
            )
        self._record(queries, replies)
        parts = np.split(total, np.cumsum(min(lengths))[:-1])
        return [total_answer(query, part) for query, part in zip(queries, parts, strict=True)]

    def _record_set_up(self) -> None:
        for name in self.names:
            sent = self._sums.sent.pop(name, 0)
            self.ledger.record(name, "key set-up", 0, 0, bytes_up=sent, protection="keys")

    def _record(
        self, queries: Sequence[AbstractQuery[Any]], replies: Mapping[str, MaskedReply]
    ) -> None:
        down = [self.ledger.numbers_down(query) for query in queries]
        for name in self._sums.centers:
            lengths, epsilons = replies[name].lengths, replies[name].epsilons
            # What the masks add is put down with the first question of the round.
            extra = self._sums.sent.pop(name, 0) - 8 * sum(lengths)
            rows = zip(queries, lengths, down, epsilons, strict=True)
            for query, length, numbers, epsilon in rows:
                noisy = isinstance(query, AbstractPrivateQuery)
                self.ledger.record(
                    name,
                    query.name,
                    length,
                    numbers,
                    bytes_up=8 * length + extra,
                    protection="masks and noise" if noisy else "masks",
                    epsilon=epsilon,
                )
                extra = 0
