"""A federation in which only sums over centers are seen: every reply leaves under a mask.

A round has one masked message per center and one short release, by which the sum of exactly
those that answered is opened. A center that stops answering in between is left out of the sum
and of all later ones. `Carrier` is the part that differs between one process and a network.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakSet

import numpy as np

from fedcox.errors import RefusedError, SecureSumError
from fedcox.federation.evidence import Evidence
from fedcox.federation.ledger import BYTES_PER_NUMBER, Ledger
from fedcox.federation.masked_center import MaskedCenter, MaskedReply, smallest_sum
from fedcox.federation.masked_numbers import decode, round_digest
from fedcox.federation.query import (
    AbstractFederation,
    AbstractPrivateQuery,
    AbstractQuery,
    Agreed,
)
from fedcox.federation.study_check import StudyCheck, evidence_of

if TYPE_CHECKING:
    from fedcox.engines.in_process import InProcess
    from fedcox.federation.center import Center
    from fedcox.privacy.identity import PublicIdentity
    from fedcox.privacy.secure_sum import Check


class Carrier(Protocol):
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
        self,
        names: Sequence[str],
        queries: Sequence[AbstractQuery[Any]],
        round_number: int,
        previous: bytes | None,
    ) -> dict[str, MaskedReply]:
        """The questions of one round to the named centers, masked against each other.

        `previous` is the transcript of the round before, for centers that follow the study.
        """
        ...

    def noted(self, name: str, query: AbstractQuery[Any]) -> tuple[int | None, float | None]:
        """What the center puts into the ledger: its smallest group, and the epsilon spent."""
        ...


class InProcessCarrier:
    """Every center in this process: to simulate, to test, to see what would be sent."""

    def __init__(self, centers: Sequence[MaskedCenter]) -> None:
        self.centers = {center.name: center for center in centers}

    def check_by(self, check: Check) -> None:
        """Nothing is altered on the way within a process: a fault is raised, nobody lost."""

    def exchange(self, step: str, messages: Mapping[str, bytes]) -> dict[str, bytes]:
        return {
            name: self.centers[name].party.handle(step, message)
            for name, message in messages.items()
        }

    def ask(
        self,
        names: Sequence[str],
        queries: Sequence[AbstractQuery[Any]],
        round_number: int,
        previous: bytes | None,
    ) -> dict[str, MaskedReply]:
        return {
            name: self.centers[name].reply(queries, round_number, names, previous)
            for name in names
        }

    def noted(self, name: str, query: AbstractQuery[Any]) -> tuple[int | None, float | None]:
        center = self.centers[name].center
        return center.group(query, masked=True), center.epsilon(query)


class Masked(AbstractFederation):
    """Asks centers through a carrier and sees nothing but sums over them.

    Where centers are `following` the study, each gets the transcript of the round before with
    every question.
    """

    shows_centers = False

    def __init__(
        self,
        study: str,
        known: Mapping[str, PublicIdentity],
        carrier: Carrier,
        *,
        smallest_sum: int = 3,
        following: bool = False,
    ) -> None:
        from fedcox.privacy.secure_sum import SecureSum

        self.ledger = Ledger()
        self._metered = _Metered(carrier)
        self._carrier = carrier
        self._sums = SecureSum(study, known, self._metered, smallest_sum=smallest_sum)
        self._sent: WeakSet[Agreed] = WeakSet()
        self._evidence: Evidence | None = None
        self._following = following
        self._previous: bytes | None = None
        carrier.check_by(self._sums.check)
        self._sums.set_up()

    @classmethod
    def around(
        cls, federation: InProcess, *, study: str = "study", check: StudyCheck | None = None
    ) -> Masked:
        """The same centers, each under masks, with identities made for this run."""
        return cls.of_centers(federation.centers, study=study, check=check)

    @classmethod
    def of_centers(
        cls, centers: Sequence[Center], *, study: str = "study", check: StudyCheck | None = None
    ) -> Masked:
        """Centers of this process under masks, with identities made for this run.

        None of them takes part in a sum without one of the others, as between hospitals whose
        study says nothing on attendance. By `check` those that have limits see that they are
        asked what the study asks.
        """
        from fedcox.privacy.identity import Identity
        from fedcox.privacy.party import Party

        identities = {center.name: Identity.create() for center in centers}
        known = {name: identity.public for name, identity in identities.items()}
        masked = [
            MaskedCenter(
                center,
                Party(
                    center.name,
                    study,
                    identities[center.name],
                    known,
                    smallest_sum=max(smallest_sum(center), len(centers)),
                ),
                None if center.gate is None else check,
            )
            for center in centers
        ]
        following = any(center.study is not None for center in masked)
        return cls(study, known, InProcessCarrier(masked), following=following)

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
        lengths: list[tuple[int, ...]] = []

        def collect(round_number: int, names: tuple[str, ...]) -> Mapping[str, bytes]:
            if lengths and self._following:
                raise _incomplete()
            replies = self._carrier.ask(names, queries, round_number, self._previous)
            lengths[:] = [reply.lengths for reply in replies.values()]
            self._metered.count({name: reply.message for name, reply in replies.items()})
            return {name: reply.message for name, reply in replies.items()}

        result = self._sums.sum(round_digest(query.digest for query in queries), collect)
        total = result.total
        if len(set(lengths)) != 1 or sum(lengths[0]) != total.size:
            raise SecureSumError(
                "Centers gave replies of different lengths to the same question.",
                ["They do not run the same study; compare their study files and versions."],
            )
        self._record(queries, lengths[0])
        transcript = None if result.transcript is None else result.transcript.to_bytes()
        self._evidence = evidence_of(queries, transcript)
        self._previous = transcript if self._following else None
        parts = np.split(total, np.cumsum(lengths[0])[:-1])
        return [decode(query, part) for query, part in zip(queries, parts, strict=True)]

    def evidence(self) -> Evidence | None:
        return self._evidence

    def _record_set_up(self) -> None:
        for name in self.names:
            sent = self._metered.taken(name)
            self.ledger.record(name, "key set-up", 0, 0, bytes_up=sent, protection="keys")

    def _record(self, queries: Sequence[AbstractQuery[Any]], lengths: tuple[int, ...]) -> None:
        down = [query.numbers + self._once(query) for query in queries]
        if self._previous is not None:
            down[0] += -(-len(self._previous) // BYTES_PER_NUMBER)
        for name in self.names:
            # What the masks add is put down with the first question of the round.
            extra = self._metered.taken(name) - 8 * sum(lengths)
            for query, length, numbers in zip(queries, lengths, down, strict=True):
                noisy = isinstance(query, AbstractPrivateQuery)
                group, epsilon = self._carrier.noted(name, query)
                self.ledger.record(
                    name,
                    query.name,
                    length,
                    numbers,
                    bytes_up=8 * length + extra,
                    protection="masks and noise" if noisy else "masks",
                    smallest_group=group,
                    epsilon=epsilon,
                )
                extra = 0

    def _once(self, query: AbstractQuery[Any]) -> int:
        """Numbers of a setting that goes to the centers with its first question."""
        if query.setting is None or query.setting in self._sent:
            return 0
        self._sent.add(query.setting)
        return query.setting.numbers


def _incomplete() -> RefusedError:
    """Centers that follow the study expect it to begin anew among those left."""
    return RefusedError(
        "The sum cannot be completed: centers were lost before and after they answered.",
        ["Ask those that are left again, from the study's first question on."],
    )


class _Metered:
    """Counts the bytes that every center sends."""

    def __init__(self, carrier: Carrier) -> None:
        self._carrier = carrier
        self._bytes: dict[str, int] = {}

    def exchange(self, step: str, messages: Mapping[str, bytes]) -> dict[str, bytes]:
        replies = self._carrier.exchange(step, messages)
        self.count(replies)
        return replies

    def count(self, replies: Mapping[str, bytes]) -> None:
        for name, reply in replies.items():
            self._bytes[name] = self._bytes.get(name, 0) + len(reply)

    def taken(self, name: str) -> int:
        """Bytes since this was asked last."""
        return self._bytes.pop(name, 0)
