"""Real numbers as integers mod 2^64, whose sums are exact.

A number x is sent as the whole number nearest to x · 2^bits. Sums of whole numbers mod 2^64
are exact in any order, and so are masks added to them. What cannot be represented is refused:
a number that is clipped would be a wrong result that looks right.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from fedcox.errors import SecureSumError
from fedcox.survival.cohort import FloatArray

UIntArray = NDArray[np.uint64]

_LARGEST = 2**63 - 1  # of the sum, as a signed number
_MOST_BITS = 1000  # within the exponents of a float64


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
