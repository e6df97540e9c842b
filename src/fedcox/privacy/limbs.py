"""Numbers of any size in fixed point: three whole numbers each, which add like the number.

A column may be measured in millions or in millionths, and the centers must agree on fixed
point before they know. So a number x becomes whole, then what is left of it in units of 2⁻⁵⁰,
then what is left of that in units of 2⁻¹⁰⁰.
"""

from __future__ import annotations

import numpy as np

from fedcox.privacy.fixed_point import FixedPoint, UIntArray
from fedcox.survival.cohort import FloatArray

LIMBS = 3
_BITS = 50


def encode_limbs(values: FloatArray, centers: int) -> UIntArray:
    """Three integers mod 2⁶⁴ for each number: all wholes, all first parts, all the rest."""
    whole = FixedPoint(centers, 0)
    parts, left = [], np.asarray(values, dtype=np.float64)
    for _ in range(LIMBS):
        parts.append(whole.encode(left))
        # Exact: what is left is a multiple of the last binary place of the number itself.
        left = np.ldexp(left - np.rint(left), _BITS)
    return np.concatenate(parts)


def decode_limbs(total: UIntArray) -> FloatArray:
    """The sums that these integers stand for."""
    parts = [
        np.ldexp(part.view(np.int64).astype(np.float64), -_BITS * place)
        for place, part in enumerate(np.split(total, LIMBS))
    ]
    return np.asarray(parts[0] + (parts[1] + parts[2]))
