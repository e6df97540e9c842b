"""Replies as integers mod 2^64, whose sums are exact, and so are masks added to them.

Three ways to write a reply. In *fixed point* a number x is the whole number nearest to
x · 2^bits; what cannot be represented is refused: a number that is clipped would be a wrong
result that looks right. In *limbs* a number of any size is four whole numbers, which add like
it: a column may be measured in billions or in billionths, and the centers must agree before
they know. So it is written in units of 2⁵⁰, what is left of it in units of one, what is left of
that in units of 2⁻⁵⁰, and the rest in units of 2⁻¹⁰⁰. As *markers* the longest follow-up of all
centers is found without showing any center's own: over a public grid of cells each center puts
a fresh random number that is not zero into every cell up to that of its own maximum, and zero
above. In the sum a cell is zero where no center reaches it; elsewhere it is uniform, whether
one center reaches it or all of them do. Markers of two or more centers cancel with probability
2^-64 in a cell; the answer would then be a cell too low.
"""

from __future__ import annotations

import math
import secrets

import numpy as np
from numpy.typing import NDArray

from fedcox.errors import SecureSumError
from fedcox.survival.cohort import FloatArray

UIntArray = NDArray[np.uint64]

_LARGEST = 2**63 - 1  # of the sum, as a signed number
_MOST_BITS = 1000  # within the exponents of a float64
LIMBS = 4  # whole numbers for a number of any size
_LIMB_BITS = 50
_HALF = 1 << (_LIMB_BITS - 1)


def encode(values: FloatArray, bits: int, centers: int) -> UIntArray:
    """The nearest whole numbers of units of 2^−bits, as integers mod 2^64.

    All centers use the same bits, so they must be chosen from what is public. For a sum over
    up to `centers` each number may be as large as 2^(63 − bits) / centers.
    """
    if abs(bits) > _MOST_BITS:
        raise SecureSumError(f"Bits of resolution lie between ±{_MOST_BITS}.")
    with np.errstate(over="ignore"):
        units = np.rint(np.ldexp(np.asarray(values, dtype=np.float64), bits))
    most = _LARGEST // centers
    # A bound that is no float64 rounds up, and 2^63 itself would wrap: hence not <=.
    if not (np.abs(units) < float(most)).all():
        unknown = int(np.count_nonzero(~np.isfinite(values)))
        outside = int(np.count_nonzero(np.abs(units) >= float(most)))
        outside -= int(np.count_nonzero(np.isinf(values)))
        raise SecureSumError(
            "These numbers cannot be sent in fixed point.",
            [
                *([f"{unknown} of {np.size(values)} are not finite."] if unknown else []),
                *(
                    [
                        f"{outside} of {np.size(values)} are out of range: with {bits} bits of "
                        f"resolution and {centers} centers each must be below "
                        f"{math.ldexp(most, -bits):.3g} in size. Divide large columns by a "
                        "power of ten."
                    ]
                    if outside
                    else []
                ),
            ],
        )
    return units.astype(np.int64).view(np.uint64)


def decode(total: UIntArray, bits: int) -> FloatArray:
    """The real numbers that integers mod 2^64 stand for, to a float64's precision."""
    return np.ldexp(total.view(np.int64).astype(np.float64), -bits)


def encode_limbs(values: FloatArray, centers: int) -> UIntArray:
    """Four integers mod 2⁶⁴ for each number, all first ones first."""
    parts, left = [], np.ldexp(np.asarray(values, dtype=np.float64), -_LIMB_BITS)
    for _ in range(LIMBS):
        parts.append(encode(left, 0, centers))
        # Exact: what is left is a multiple of the last binary place of the number itself.
        left = np.ldexp(left - np.rint(left), _LIMB_BITS)
    return np.concatenate(parts)


def decode_limbs(total: UIntArray) -> FloatArray:
    """The sums that these integers stand for."""
    parts = [part.view(np.int64).copy() for part in np.split(total, LIMBS)]
    # Every part but the first below half a unit of the one before it: parts that cancel in a
    # sum would take digits with them when they are doubles.
    for place in range(LIMBS - 1, 0, -1):
        units = (parts[place] + _HALF) >> _LIMB_BITS
        parts[place] -= units << _LIMB_BITS
        parts[place - 1] += units
    first, *rest = (
        np.ldexp(part.astype(np.float64), _LIMB_BITS * (1 - place))
        for place, part in enumerate(parts)
    )
    return np.asarray(first + (rest[0] + (rest[1] + rest[2])))


def markers(cells_reached: int, cells: int) -> UIntArray:
    """A center's vector: uniform non-zero numbers in its first cells, zero in the others."""
    if not 0 <= cells_reached <= cells:
        raise ValueError(f"{cells_reached} cells of a grid of {cells} cannot be reached.")
    marked = np.zeros(cells, dtype=np.uint64)
    while (empty := np.flatnonzero(marked[:cells_reached] == 0)).size:
        drawn = secrets.token_bytes(8 * empty.size)
        marked[empty] = np.frombuffer(drawn, dtype=np.uint64)
    return marked


def highest(total: UIntArray) -> int | None:
    """The highest cell, counted from zero, that any center reaches; None if none does."""
    reached = np.flatnonzero(total)
    return int(reached[-1]) if reached.size else None
