"""Centers in one process, with a transport that drops and alters what a test says."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

import numpy as np

from fedcox.privacy.fixed_point import UIntArray
from fedcox.privacy.identity import Identity
from fedcox.privacy.masks import round_seed, self_mask_key, with_masks
from fedcox.privacy.messages import CentersOfRound, vector_in
from fedcox.privacy.secure_sum import Exchange, SecureSum, SumResult
from fedcox.privacy.secure_sum_center import SecureSumCenter

QUESTION = b"gradient at zero".ljust(32)
STUDY = "lung"
SIGNATURE = 64  # bytes, at the beginning of what a center sends

Alter = Callable[[bytes], bytes]


def directly(parties: Mapping[str, SecureSumCenter]) -> Exchange:
    """Nobody drops."""
    return lambda step, messages: {
        name: parties[name].handle(step, message) for name, message in messages.items()
    }


@dataclass(eq=False)
class ScriptedTransport:
    """Drops a center's replies from a step on, and alters single messages either way."""

    inner: Exchange
    dropping: dict[str, set[str]] = field(default_factory=dict)  # by step
    altered_reply: dict[tuple[str, str], Alter] = field(default_factory=dict)
    altered_message: dict[tuple[str, str], Alter] = field(default_factory=dict)
    heard: list[tuple[str, str]] = field(default_factory=list)
    replies: dict[tuple[str, str], bytes] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)

    def exchange(self, step: str, messages: Mapping[str, bytes]) -> dict[str, bytes]:
        self.gone |= self.dropping.get(step, set())
        there = {
            name: self.altered_message.get((step, name), bytes)(message)
            for name, message in messages.items()
            if name not in self.gone
        }
        replies = {
            name: self.altered_reply.get((step, name), bytes)(reply)
            for name, reply in self.inner(step, there).items()
        }
        self.heard += [(step, name) for name in there]
        self.replies |= {(step, name): reply for name, reply in replies.items()}
        return replies


class Hospitals:
    """Some parties, their coordinator and the transport between them."""

    def __init__(self, number: int, *, smallest_sum: int = 3) -> None:
        self.names = tuple(f"hospital {index:02d}" for index in range(number))
        self.identities = {name: Identity.create() for name in self.names}
        self.known = {name: identity.public for name, identity in self.identities.items()}
        self.parties = {
            name: SecureSumCenter(name, STUDY, identity, self.known, smallest_sum=smallest_sum)
            for name, identity in self.identities.items()
        }
        self.transport = ScriptedTransport(directly(self.parties))
        self.coordinator = SecureSum(
            STUDY, self.known, self.transport.exchange, smallest_sum=smallest_sum
        )
        self.masked: dict[tuple[int, str], bytes] = {}  # by round

    def ready(self) -> Hospitals:
        """After a set-up; every center has the shares of the others."""
        self.coordinator.set_up()
        hand_out(self.coordinator, self.deliver)
        return self

    def deliver(self, name: str, shares: bytes) -> None:
        """What is altered on the way is."""
        if shares:
            alter = self.transport.altered_message.get(("vector", name), bytes)
            self.parties[name].accept(alter(shares))

    def sum(
        self,
        vectors: Mapping[str, UIntArray],
        *,
        without: Collection[str] = (),
        question: bytes = QUESTION,
        asked: Mapping[str, bytes] | None = None,
    ) -> SumResult:
        """One secure sum; `without` do not answer, `asked` puts other questions to some."""

        def collect(round_number: int, shares: Mapping[str, bytes]) -> dict[str, bytes]:
            replies = {}
            for name, own in shares.items():
                if name in without or name in self.transport.gone:
                    continue
                self.deliver(name, own)
                put = (asked or {}).get(name, question)
                party = self.parties[name]
                replies[name] = party.masked(round_number, put, vectors[name], tuple(shares))
                self.masked[round_number, name] = replies[name]
            return replies

        return self.coordinator.sum(question, collect)


def hand_out(sums: SecureSum, deliver: Callable[[str, bytes], None]) -> None:
    """Shares that else go with the first question."""
    for name, shares in sums._shares.items():
        deliver(name, shares)
    sums._shares = {}


def random_vectors(names: Collection[str], numbers: int, seed: int = 1) -> dict[str, UIntArray]:
    rng = np.random.default_rng(seed)
    return {
        name: rng.integers(0, 2**64, size=numbers, dtype=np.uint64, endpoint=False)
        for name in names
    }


def plain_sum(vectors: Mapping[str, UIntArray], names: Collection[str]) -> UIntArray:
    """The sum mod 2^64 in Python's own integers."""
    columns = zip(*(vectors[name].tolist() for name in names), strict=True)
    return np.array([sum(column) % 2**64 for column in columns], dtype=np.uint64)


def masked_vector(message: bytes) -> UIntArray:
    """What a masked message holds, without the check number."""
    return vector_in(message[SIGNATURE:])[:-1]


def without_self_mask(vector: UIntArray, seed: bytes) -> UIntArray:
    """The vector as it is for whoever knows the seed of its center."""
    return with_masks(vector, added=[], subtracted=[self_mask_key(seed)])


def true_seed(party: SecureSumCenter) -> bytes:
    """The seed of the round under way, as only the party itself knows it."""
    assert party._round is not None
    return round_seed(party._secrets.master, party._round.context)


def flipped(message: bytes, place: int = -1) -> bytes:
    altered = bytearray(message)
    altered[place] ^= 1
    return bytes(altered)


def told(number: int, centers: Collection[str]) -> bytes:
    return CentersOfRound(number, tuple(centers)).to_bytes()


def all_masked(hospitals: Hospitals, vectors: dict[str, UIntArray], number: int = 1) -> None:
    for name in hospitals.names:
        reply = hospitals.parties[name].masked(number, QUESTION, vectors[name], hospitals.names)
        hospitals.masked[number, name] = reply
