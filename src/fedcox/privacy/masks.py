"""The random numbers that hide a center's vector, and what undoes them in the sum.

A vector is hidden twice. *Pair masks*: any two centers have a mask in common, which one adds
and the other subtracts, so that they vanish in the sum over both. *Self masks*: one of each
center's own, whose seed it gives away only when the sum is released; without it a vector that
comes late, after the others have undone its pair masks, would lie open.

Every key is derived one-way from the `context`: study, session, round, the query's digest
and the centers that take part. Centers that were told different things have different masks,
and these do not vanish.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from fedcox.privacy.ciphers import digest, expand, fields, keystream
from fedcox.privacy.fixed_point import UIntArray

SEED_BYTES = 16
KEY_BYTES = 32

#: Every center sends this in one more number, so that the sum shows whether all masks are off.
CHECK = np.uint64(1)


def round_context(
    study: str, session: bytes, round_number: int, query: bytes, centers: Iterable[str]
) -> bytes:
    """What all centers must agree on for their masks to vanish, in 32 bytes."""
    number, names = round_number.to_bytes(8), fields(*sorted(centers))
    return digest(b"fedcox round", study, session, number, query, names)


def released_context(context: bytes, survivors: Iterable[str]) -> bytes:
    """The context together with the centers whose sum is released."""
    return digest(b"fedcox release", context, *sorted(survivors))


def pair_mask_key(pair_key: bytes, context: bytes) -> bytes:
    """The key of the mask that two centers have in common in one round."""
    return expand(pair_key, b"pair mask", context)


class Openings(NamedTuple):
    """What two centers contribute to the opening of each other's seed; only they know it."""

    given: bytes
    needed: bytes


def openings(pair_key: bytes, released: bytes, name: str, other: str) -> Openings:
    """As `name` sees them: given for the other's seed, and needed from the other for its own.

    A seed is closed, and opened again, by the exclusive or with all that is needed for it.
    """
    both = expand(pair_key, b"opening", released, length=2 * SEED_BYTES)
    lower, upper = both[:SEED_BYTES], both[SEED_BYTES:]
    return Openings(lower, upper) if name < other else Openings(upper, lower)


def round_seed(master: bytes, context: bytes) -> bytes:
    """The seed of a center's self mask in one round; the master stays secret behind it."""
    return expand(master, b"self mask", context, length=SEED_BYTES)


def self_mask_key(seed: bytes) -> bytes:
    """The key of a center's own mask, from its seed of the round."""
    return expand(seed, b"self mask stream")


def with_masks(
    vector: UIntArray, *, added: Iterable[bytes], subtracted: Iterable[bytes]
) -> UIntArray:
    """The vector with the masks of some keys on it, mod 2^64, and with those of others off it.

    Of two centers the one whose name comes first adds what they have in common.
    """
    total = np.array(vector, dtype=np.uint64)
    mask, zeros = np.empty_like(total), bytes(total.nbytes)
    for keys, change in ((added, np.add), (subtracted, np.subtract)):
        for key in keys:
            keystream(key, zeros, mask)
            change(total, mask, out=total)
    return total
