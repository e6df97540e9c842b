"""The random numbers that hide a center's vector, and what undoes them in the sum.

A vector is hidden twice. *Pair masks*: any two centers have a mask in common, which one adds
and the other subtracts, so that they vanish in the sum over both. *Self masks*: one of each
center's own, whose seed it gives away only when the sum is released; without it a vector that
comes late, after the others have undone its pair masks, would lie open.

Every key is derived one-way from the `context`: study, session, round, the question's digest
and the centers that take part. Centers that were told different things have different masks,
and these do not vanish.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from fedcox.privacy.ciphers import digest, expand, fields, keystream, xor
from fedcox.privacy.fixed_point import UIntArray

SEED_BYTES = 16
KEY_BYTES = 32

#: Every center sends this in one more number, so that the sum shows whether all masks are off.
CHECK = np.uint64(1)


def round_context(
    study: str, session: bytes, round_number: int, question: bytes, centers: Iterable[str]
) -> bytes:
    """What all centers must agree on for their masks to vanish, in 32 bytes."""
    names = fields(*(name.encode() for name in sorted(centers)))
    return digest(
        b"fedcox round", study.encode(), session, round_number.to_bytes(8), question, names
    )


def released_context(context: bytes, survivors: Iterable[str]) -> bytes:
    """The context together with the centers whose sum is released."""
    return digest(b"fedcox release", context, *(name.encode() for name in sorted(survivors)))


def pair_mask_key(pair_key: bytes, context: bytes) -> bytes:
    """The key of the mask that two centers have in common in one round."""
    return expand(pair_key, fields(b"pair mask", context), KEY_BYTES)


@dataclass(frozen=True)
class Openings:
    """What two centers contribute to the opening of each other's seed; only they know it."""

    given: bytes
    needed: bytes


def openings(pair_key: bytes, released: bytes, own: str, other: str) -> Openings:
    """As `own` sees them: given for the other's seed, and needed from the other for its own."""
    both = expand(pair_key, fields(b"opening", released), 2 * SEED_BYTES)
    lower, upper = both[:SEED_BYTES], both[SEED_BYTES:]
    return Openings(lower, upper) if own < other else Openings(upper, lower)


def round_seed(master: bytes, context: bytes) -> bytes:
    """The seed of a center's self mask in one round; the master stays secret behind it."""
    return expand(master, fields(b"self mask", context), SEED_BYTES)


def closed_seed(seed: bytes, needed: Iterable[bytes]) -> bytes:
    """The seed, hidden until every opening is known; applied twice, the seed again."""
    return xor(seed, *needed)


class Masking:
    """A vector of integers mod 2^64 to which masks are added and from which they are taken."""

    def __init__(self, vector: UIntArray) -> None:
        self.vector = np.array(vector, dtype=np.uint64)
        self._mask = np.empty_like(self.vector)
        self._zeros = bytes(self.vector.nbytes)

    def pair(self, key: bytes, own: str, other: str) -> None:
        """Put on what `own` has in common with `other`: the smaller name adds."""
        self._shift(key, up=own < other)

    def without_pair(self, key: bytes, own: str, other: str) -> None:
        """Take off what `own` put on for `other`."""
        self._shift(key, up=own > other)

    def self_mask(self, seed: bytes) -> None:
        """Put on a center's own mask."""
        self._shift(_self_key(seed), up=True)

    def without_self_mask(self, seed: bytes) -> None:
        """Take off a center's own mask."""
        self._shift(_self_key(seed), up=False)

    def _shift(self, key: bytes, *, up: bool) -> None:
        keystream(key, self._zeros, self._mask)
        change = np.add if up else np.subtract
        change(self.vector, self._mask, out=self.vector)


def _self_key(seed: bytes) -> bytes:
    return expand(seed, b"fedcox self mask stream", KEY_BYTES)
