"""Which whole numbers explain these sums? A lattice reduction, off the shelf.

Sums of n_c patients of each kind c, each of whom adds a known amount, are equations with few
digits too many: among all whole numbers near the expected ones only the true ones meet all of
them. Lenstra, Lenstra and Lovász's reduction (1982), here python-flint's, finds them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import qr

from fedcox.errors import needs_extra
from fedcox.survival.cohort import FloatArray, IntArray

#: More take minutes.
MOST_UNKNOWNS = 128
#: By how many times what is unsure in it a sum may be missed.
_MISSED = 30.0
#: Coefficients are whole numbers of so many units at most.
_LARGEST = 2.0**50


def whole_numbers(
    rows: FloatArray, sums: FloatArray, unsure: FloatArray, guess: FloatArray
) -> IntArray | None:
    """The whole numbers n, none negative and near `guess`, with rows · n = sums.

    `unsure` is how far off each sum may be. None where no such numbers are found.
    """
    from_guess = np.rint(guess)
    weighted, target = rows / unsure[:, None], (sums - rows @ from_guess) / unsure
    kept, triangle = qr(weighted, mode="economic")
    largest = float(np.abs(triangle).max(initial=1.0))
    shrink = min(1.0, _LARGEST / largest)
    for moved in _short(np.asarray(triangle * shrink), np.asarray((kept.T @ target) * shrink)):
        found = from_guess + moved
        missed = np.abs(weighted @ moved - target)
        if (found >= 0).all() and float(missed.max(initial=0.0)) <= _MISSED:
            return found.astype(np.int64)
    return None


def _short(rows: FloatArray, target: FloatArray) -> list[FloatArray]:
    """Short whole vectors with rows · n near the target, the shortest first."""
    matrix = _flint()
    equations, unknowns = rows.shape
    basis = [[0] * (unknowns + 1 + equations) for _ in range(unknowns + 1)]
    whole = np.rint(rows)
    for place in range(unknowns):
        basis[place][place] = 1
        basis[place][unknowns + 1 :] = [int(value) for value in whole[:, place]]
    basis[unknowns][unknowns] = 1
    basis[unknowns][unknowns + 1 :] = [-int(value) for value in np.rint(target)]
    reduced = matrix(basis).lll()
    found = []
    for row in range(unknowns + 1):
        sign = int(reduced[row, unknowns])
        if abs(sign) == 1:
            found.append(
                np.array([sign * int(reduced[row, k]) for k in range(unknowns)], dtype=float)
            )
    return found


def _flint() -> Any:
    try:
        from flint import fmpz_mat
    except ImportError:
        raise needs_extra("python-flint", "audit") from None
    return fmpz_mat
