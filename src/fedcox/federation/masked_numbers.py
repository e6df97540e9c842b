"""Replies of a round under masks, as the integers that are masked."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedcox.federation.query import AbstractAdditiveQuery, AbstractMaximumQuery, AbstractQuery
from fedcox.privacy import fixed_point
from fedcox.privacy.fixed_point import LIMBS, UIntArray, decode_limbs, encode_limbs
from fedcox.survival.cohort import FloatArray


def encode(query: AbstractAdditiveQuery[Any], packed: FloatArray, centers: int) -> UIntArray:
    """A packed reply in fixed point, its numbers that must keep every digit first."""
    fine = packed.size if query.fine is None else query.fine
    rest = fixed_point.encode(packed[fine:], query.bits, centers)
    return np.concatenate([encode_limbs(packed[:fine], centers), rest]) if fine else rest


def decode(query: AbstractQuery[Any], total: UIntArray) -> Any:
    """The combined reply that a sum of integers stands for."""
    if isinstance(query, AbstractMaximumQuery):
        from fedcox.privacy.fixed_point import highest

        cell = highest(total)
        return 0 if cell is None else 1 + cell
    if not isinstance(query, AbstractAdditiveQuery):
        raise TypeError(f"Replies to '{query.name}' do not add up.")
    fine = total.size if query.fine is None else LIMBS * query.fine
    rest = fixed_point.decode(total[fine:], query.bits)
    return query.unpack(np.concatenate([decode_limbs(total[:fine]), rest]) if fine else rest)
