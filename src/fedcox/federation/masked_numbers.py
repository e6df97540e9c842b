"""Questions and replies of a round under masks, as the integers and bytes that are masked."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np

from fedcox.federation.query import AbstractAdditiveQuery, AbstractMaximumQuery, AbstractQuery
from fedcox.privacy.fixed_point import FixedPoint, UIntArray
from fedcox.privacy.limbs import LIMBS, decode_limbs, encode_limbs
from fedcox.survival.cohort import FloatArray


def round_digest(queries: Iterable[AbstractQuery[Any]]) -> bytes:
    """One fingerprint for all questions of a round, from that of each."""
    return hashlib.sha256(b"".join([query.digest for query in queries])).digest()


def encode(query: AbstractAdditiveQuery[Any], packed: FloatArray, centers: int) -> UIntArray:
    """A packed reply in fixed point, its numbers that must keep every digit first."""
    fine = packed.size if query.fine is None else query.fine
    rest = FixedPoint(centers, query.bits).encode(packed[fine:])
    return np.concatenate([encode_limbs(packed[:fine], centers), rest])


def decode(query: AbstractQuery[Any], total: UIntArray) -> Any:
    """The combined reply that a sum of integers stands for."""
    if isinstance(query, AbstractMaximumQuery):
        from fedcox.privacy.secure_maximum import highest

        cell = highest(total)
        return 0 if cell is None else 1 + cell
    if not isinstance(query, AbstractAdditiveQuery):
        raise TypeError(f"Replies to '{query.name}' do not add up.")
    fine = total.size if query.fine is None else LIMBS * query.fine
    # The sum is whole again whatever the number of centers, so one is enough to read it.
    rest = FixedPoint(1, query.bits).decode(total[fine:])
    return query.unpack(np.concatenate([decode_limbs(total[:fine]), rest]))
