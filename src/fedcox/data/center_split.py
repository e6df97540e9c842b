"""Which simulated patient lies in which center.

Each split returns the center's number, from 0, of every patient. Every center gets at least
one patient.
"""

from __future__ import annotations

import numpy as np

from fedcox.errors import InputError
from fedcox.survival.cohort import FloatArray, IntArray


def split_uniformly(patients: int, centers: int, *, rng: np.random.Generator) -> IntArray:
    """At random, into centers of equal size (paper, section 6.1, first experiment)."""
    return rng.permutation(_in_order(even_sizes(patients, centers)))


def split_unequally(patients: int, centers: int, *, rng: np.random.Generator) -> IntArray:
    """At random, into a few large centers and many small ones."""
    return rng.permutation(_in_order(unequal_sizes(patients, centers, rng=rng)))


def split_by_value(values: FloatArray, centers: int) -> IntArray:
    """In order of a value: the smallest to the first center, the largest to the last.

    By follow-up time this is the paper's second experiment; by a covariate, centers with a
    case mix of their own.
    """
    assignment = np.empty(values.size, dtype=np.int64)
    assignment[np.argsort(values, kind="stable")] = _in_order(even_sizes(values.size, centers))
    return assignment


def even_sizes(patients: int, centers: int) -> IntArray:
    """Sizes that differ by one patient at most."""
    _check(patients, centers)
    whole, rest = divmod(patients, centers)
    sizes: IntArray = np.full(centers, whole, dtype=np.int64)
    sizes[:rest] += 1
    return sizes


def unequal_sizes(patients: int, centers: int, *, rng: np.random.Generator) -> IntArray:
    """Sizes that fall off from the largest center to the smallest, at least one each."""
    _check(patients, centers)
    weights = np.sort(rng.gamma(2.0, size=centers))[::-1]
    shares = (patients - centers) * weights / weights.sum()
    sizes: IntArray = 1 + np.floor(shares).astype(np.int64)
    sizes[: patients - int(sizes.sum())] += 1  # what rounding left over, one by one
    return sizes


def _in_order(sizes: IntArray) -> IntArray:
    return np.repeat(np.arange(sizes.size, dtype=np.int64), sizes)


def _check(patients: int, centers: int) -> None:
    if centers < 1 or patients < centers:
        raise InputError(
            "These simulated patients cannot be split.",
            [
                f"There are {patients} patients for {centers} centers; at least one center, "
                "and one patient in each, is needed."
            ],
        )
