"""Real numbers as integers mod 2^64, whose sums are exact.

A number x is sent as the whole number nearest to x · 2^bits. Sums of whole numbers mod 2^64
are exact in any order, and so are masks added to them. What cannot be represented is refused:
a number that is clipped would be a wrong result that looks right.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedcox.errors import SecureSumError
from fedcox.survival.cohort import FloatArray, IntArray

UIntArray = NDArray[np.uint64]

DEFAULT_BITS = 32
_LARGEST = 2**63 - 1  # of the sum, as a signed number
_MOST_BITS = 1000  # within the exponents of a float64


@dataclass(frozen=True, eq=False)
class FixedPoint:
    """Resolution 2^−bits and the range that goes with it, for sums over up to `centers`.

    `bits` is one number, or one for each entry where the entries differ in scale. All centers
    use the same, so it must be chosen from what is public. It may be negative. With the
    default of 32 the resolution is 2.3e-10 and the range ±2^31 / centers.
    """

    centers: int
    bits: int | IntArray = DEFAULT_BITS

    def __post_init__(self) -> None:
        if self.centers < 1:
            raise SecureSumError("A sum is over at least one center.")
        if np.abs(self.bits).max(initial=0) > _MOST_BITS:
            raise SecureSumError(f"Bits of resolution lie between ±{_MOST_BITS}.")

    @property
    def resolution(self) -> FloatArray:
        """The distance of two neighbouring numbers; each is off by at most half of it."""
        return np.ldexp(1.0, np.negative(self.bits))

    @property
    def largest(self) -> FloatArray:
        """The largest size of a center's number: `centers` of these still do not wrap."""
        return np.ldexp(float(self._most), np.negative(self.bits))

    def encode(self, values: FloatArray) -> UIntArray:
        """The nearest whole numbers of units, as integers mod 2^64."""
        with np.errstate(over="ignore"):
            units = np.rint(np.ldexp(np.asarray(values, dtype=np.float64), self.bits))
        faults = self._faults(values, units)
        if faults:
            raise SecureSumError("These numbers cannot be sent in fixed point.", faults)
        return units.astype(np.int64).view(np.uint64)

    def decode(self, total: UIntArray) -> FloatArray:
        """The real numbers that integers mod 2^64 stand for, to a float64's precision."""
        return np.ldexp(total.view(np.int64).astype(np.float64), np.negative(self.bits))

    @property
    def _most(self) -> int:
        return _LARGEST // self.centers

    def _faults(self, values: FloatArray, units: FloatArray) -> list[str]:
        faults = []
        unknown = int(np.count_nonzero(~np.isfinite(values)))
        if unknown:
            faults.append(f"{unknown} of {np.size(values)} are not finite.")
        # A bound that is no float64 rounds up, and 2^63 itself would wrap: hence >=.
        outside = int(np.count_nonzero(np.abs(units) >= float(self._most))) - int(
            np.count_nonzero(np.isinf(values))
        )
        if outside:
            faults.append(
                f"{outside} of {np.size(values)} are out of range: with {self._bits_in_words} "
                f"of resolution and {self.centers} centers each must be below "
                f"{np.min(self.largest):.3g} in size. Divide large columns by a power of ten."
            )
        return faults

    @property
    def _bits_in_words(self) -> str:
        low, high = int(np.min(self.bits)), int(np.max(self.bits))
        return f"{low} bits" if low == high else f"{low} to {high} bits"
