"""Numbers of any size in fixed point: four whole numbers each, which add like the number.

A column may be measured in billions or in billionths, and the centers must agree on fixed point
before they know. So a number is written in units of 2⁵⁰, what is left of it in units of one,
what is left of that in units of 2⁻⁵⁰, and the rest in units of 2⁻¹⁰⁰.
"""

from __future__ import annotations

import numpy as np

from fedcox.privacy.fixed_point import FixedPoint, UIntArray
from fedcox.survival.cohort import FloatArray

LIMBS = 4
_BITS = 50


def encode_limbs(values: FloatArray, centers: int) -> UIntArray:
    """Four integers mod 2⁶⁴ for each number, all first ones first."""
    whole = FixedPoint(centers, 0)
    parts, left = [], np.ldexp(np.asarray(values, dtype=np.float64), -_BITS)
    for _ in range(LIMBS):
        parts.append(whole.encode(left))
        # Exact: what is left is a multiple of the last binary place of the number itself.
        left = np.ldexp(left - np.rint(left), _BITS)
    return np.concatenate(parts)


def decode_limbs(total: UIntArray) -> FloatArray:
    """The sums that these integers stand for."""
    first, *rest = (
        np.ldexp(part.view(np.int64).astype(np.float64), _BITS * (1 - place))
        for place, part in enumerate(np.split(total, LIMBS))
    )
    return np.asarray(first + (rest[0] + (rest[1] + rest[2])))
