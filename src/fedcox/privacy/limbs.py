"""Numbers of any size in fixed point: four whole numbers each, which add like the number.

A column may be measured in billions or in billionths, and the centers must agree on fixed point
before they know. So a number is written in units of 2⁵⁰, what is left of it in units of one,
what is left of that in units of 2⁻⁵⁰, and the rest in units of 2⁻¹⁰⁰.
"""

from __future__ import annotations

import numpy as np

from fedcox.privacy.fixed_point import UIntArray, encode
from fedcox.survival.cohort import FloatArray

LIMBS = 4
_BITS = 50
_HALF = 1 << (_BITS - 1)


def encode_limbs(values: FloatArray, centers: int) -> UIntArray:
    """Four integers mod 2⁶⁴ for each number, all first ones first."""
    parts, left = [], np.ldexp(np.asarray(values, dtype=np.float64), -_BITS)
    for _ in range(LIMBS):
        parts.append(encode(left, 0, centers))
        # Exact: what is left is a multiple of the last binary place of the number itself.
        left = np.ldexp(left - np.rint(left), _BITS)
    return np.concatenate(parts)


def decode_limbs(total: UIntArray) -> FloatArray:
    """The sums that these integers stand for."""
    parts = [part.view(np.int64).copy() for part in np.split(total, LIMBS)]
    # Every part but the first below half a unit of the one before it: parts that cancel in a
    # sum would take digits with them when they are doubles.
    for place in range(LIMBS - 1, 0, -1):
        units = (parts[place] + _HALF) >> _BITS
        parts[place] -= units << _BITS
        parts[place - 1] += units
    first, *rest = (
        np.ldexp(part.astype(np.float64), _BITS * (1 - place))
        for place, part in enumerate(parts)
    )
    return np.asarray(first + (rest[0] + (rest[1] + rest[2])))
