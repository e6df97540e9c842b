"""Which simulated patient lies in which center.

Each split returns the center's number, from 0, of every patient. Every center gets at least
one patient.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from fedcox.errors import InputError
from fedcox.survival.cohort import Cohort, FloatArray, IntArray

Split = Literal["uniform", "time", "covariate", "dirichlet"]

_CLASSES = 10


def split_cohort(
    cohort: Cohort,
    centers: int,
    split: Split,
    *,
    rng: np.random.Generator,
    concentration: float = 0.5,
) -> IntArray:
    """Any of the splits by its name; `concentration` is that of "dirichlet"."""
    if split == "time":
        return split_by_value(cohort.time, centers)
    if split == "covariate":
        return split_by_value(cohort.covariates[:, 0], centers)
    if split == "dirichlet":
        return split_by_dirichlet(cohort.time, centers, concentration=concentration, rng=rng)
    return split_uniformly(cohort.patients, centers, rng=rng)


def split_uniformly(patients: int, centers: int, *, rng: np.random.Generator) -> IntArray:
    """At random, into centers of equal size (paper, section 6.1, first experiment)."""
    return rng.permutation(_in_order(even_sizes(patients, centers)))


def split_by_value(values: FloatArray, centers: int) -> IntArray:
    """In order of a value: the smallest to the first center, the largest to the last.

    By follow-up time this is the paper's second experiment; by a covariate, centers with a
    case mix of their own.
    """
    assignment = np.empty(values.size, dtype=np.int64)
    assignment[np.argsort(values, kind="stable")] = _in_order(even_sizes(values.size, centers))
    return assignment


def split_by_dirichlet(
    values: FloatArray, centers: int, *, concentration: float, rng: np.random.Generator
) -> IntArray:
    """Each tenth of the patients, by a value, spread over centers in shares of its own.

    Shares are drawn from a Dirichlet distribution: a `concentration` of 100 is almost uniform,
    at 0.1 nearly every tenth lies in one center. A center that got nobody takes one patient
    from the largest.
    """
    _check(values.size, centers)
    if not 0 < concentration < np.inf:
        raise InputError(
            "These simulated patients cannot be split.",
            [f"The concentration is {concentration:g}; it must be a positive number."],
        )
    tenth = split_by_value(values, min(_CLASSES, values.size))
    assignment = np.empty(values.size, dtype=np.int64)
    for number in range(int(tenth.max()) + 1):
        members = rng.permutation(np.flatnonzero(tenth == number))
        shares = rng.dirichlet(np.full(centers, concentration))
        ends = np.rint(np.cumsum(shares) * members.size).astype(np.int64)
        assignment[members] = np.searchsorted(ends, np.arange(members.size), side="right")
    for empty in np.flatnonzero(np.bincount(assignment, minlength=centers) == 0):
        largest = int(np.bincount(assignment).argmax())
        assignment[rng.choice(np.flatnonzero(assignment == largest))] = empty
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
