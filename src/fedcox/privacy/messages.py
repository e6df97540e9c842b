"""Messages of secure sums, as bytes between a center and the coordinator.

Nothing in a message is executed or trusted: a message that cannot be read is a SecureSumError,
and what a center sends is signed over the study, the session or round, the step and its name.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from fedcox.errors import SecureSumError
from fedcox.privacy.ciphers import SHARE_BYTES, fields, fields_in
from fedcox.privacy.fixed_point import UIntArray
from fedcox.privacy.identity import Identity, PublicIdentity
from fedcox.privacy.masks import KEY_BYTES, SEED_BYTES

_SIGNATURE_BYTES = 64
_ROUND = struct.Struct(">I")

Message = TypeVar("Message")


def sign(identity: Identity, step: str, where: bytes, sender: str, body: bytes) -> bytes:
    """The body behind a signature, which holds for this step of this study or round alone."""
    return identity.sign(fields(b"fedcox", step, where, sender, body)) + body


def signed(
    identities: Mapping[str, PublicIdentity],
    step: str,
    where: bytes,
    parse: Callable[[bytes], Message],
    sender: str,
    message: bytes,
) -> Message:
    """What `sender` sent for one step, if its signature holds."""
    signature, body = message[:_SIGNATURE_BYTES], message[_SIGNATURE_BYTES:]
    what = f"The {step} message of center '{sender}'"
    if not identities[sender].signed(fields(b"fedcox", step, where, sender, body), signature):
        raise SecureSumError(
            f"{what} is not validly signed.",
            [
                "It was altered, is another center's, or is of another study, round, question "
                "or set of centers. Nothing of it is used."
            ],
        )
    return read(parse, body, what)


def read(parse: Callable[[bytes], Message], body: bytes, what: str) -> Message:
    """Read a body, or say whose cannot be read."""
    try:
        return parse(body)
    except (ValueError, struct.error) as error:
        raise SecureSumError(f"{what} cannot be read: it is cut or malformed.") from error


def vector_in(body: bytes) -> UIntArray:
    """A masked vector as it was sent; it ends with the check number."""
    if not body:
        raise ValueError("The check number is missing.")
    return np.frombuffer(body, dtype="<u8").astype(np.uint64)


@dataclass(frozen=True)
class Announcement:
    """A center's public keys of one session, and a digest by which to know its master again."""

    pair_key: bytes
    share_key: bytes
    master_digest: bytes

    def to_bytes(self) -> bytes:
        return self.pair_key + self.share_key + self.master_digest

    @classmethod
    def from_bytes(cls, body: bytes) -> Announcement:
        return cls(*_pieces(body, 32, 3))


@dataclass(frozen=True)
class ByName:
    """One content for each named center."""

    parts: Mapping[str, bytes]

    def to_bytes(self) -> bytes:
        return fields(*(piece for pair in sorted(self.parts.items()) for piece in pair))

    @classmethod
    def from_bytes(cls, body: bytes) -> ByName:
        pieces = fields_in(body)
        if len(pieces) % 2:
            raise ValueError("A name without content.")
        names = [piece.decode() for piece in pieces[::2]]
        if len(set(names)) != len(names):
            raise ValueError("A name is there twice.")
        return cls(dict(zip(names, pieces[1::2], strict=True)))


@dataclass(frozen=True)
class CentersOfRound:
    """Who is there, by the coordinator's word: those to be summed over, or still present."""

    round_number: int
    centers: tuple[str, ...]

    def to_bytes(self) -> bytes:
        return _ROUND.pack(self.round_number) + fields(*sorted(self.centers))

    @classmethod
    def from_bytes(cls, body: bytes) -> CentersOfRound:
        (round_number,) = _ROUND.unpack_from(body)
        names = tuple([piece.decode() for piece in fields_in(body[_ROUND.size :])])
        if len(set(names)) != len(names):
            raise ValueError("A name is there twice.")
        return cls(round_number, names)


@dataclass(frozen=True)
class Release:
    """A surviving center's part in opening a sum, in the order of the others' names.

    `closed_seed` is its own seed, closed until every other survivor has given its opening;
    `pair_mask_keys` are those it has in common with the centers that dropped.
    """

    closed_seed: bytes
    openings: tuple[bytes, ...]
    pair_mask_keys: tuple[bytes, ...] = ()

    def to_bytes(self) -> bytes:
        return b"".join((self.closed_seed, *self.openings, *self.pair_mask_keys))

    @classmethod
    def from_bytes(cls, body: bytes, *, openings: int, pair_mask_keys: int) -> Release:
        end = SEED_BYTES * (1 + openings)
        seeds = _pieces(body[:end], SEED_BYTES, 1 + openings)
        return cls(seeds[0], seeds[1:], _pieces(body[end:], KEY_BYTES, pair_mask_keys))


@dataclass(frozen=True)
class Recovery:
    """For each center that vanished: what it would have opened, and a share of its master."""

    openings: tuple[bytes, ...]
    shares: tuple[bytes, ...]

    def to_bytes(self) -> bytes:
        return b"".join((*self.openings, *self.shares))

    @classmethod
    def from_bytes(cls, body: bytes, *, vanished: int) -> Recovery:
        end = SEED_BYTES * vanished
        return cls(
            _pieces(body[:end], SEED_BYTES, vanished),
            _pieces(body[end:], SHARE_BYTES, vanished),
        )


def _pieces(body: bytes, size: int, number: int) -> tuple[bytes, ...]:
    if len(body) != size * number:
        raise ValueError("Too short or too long.")
    return tuple([body[start : start + size] for start in range(0, len(body), size)])
