"""Is a number or an array within its bounds? Words for what is not.

Sizes are held to what a study can need: a batch of a billion draws would not be wrong, and
would fill a hospital's memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

MOST_PATIENTS = 10**10
MOST_ROUNDS = 10**9
#: Beyond this epsilon noise stands for nothing: sums would be exact but for their name.
MOST_EPSILON = 1000.0
#: Patients or cells that one step draws, and steps that are taken at once.
MOST_DRAWN = 10_000_000
MOST_STEPS = 1_000_000
#: Patients, or pairs of patient and interval, that a center puts into one order.
MOST_ORDERED = 50_000_000


def shaped(
    name: str, value: NDArray[Any] | None, shape: tuple[int, ...], reason: str
) -> Iterator[str]:
    """An array of another shape, for what it is needed."""
    if value is not None and value.shape != shape:
        yield f"{name} has the shape {value.shape}; {shape} is needed, {reason}"


def between(name: str, value: int | None, least: int, most: int) -> Iterator[str]:
    """A number out of its bounds."""
    if value is not None and not least <= value <= most:
        yield f"{name} must be from {least} to {most:,}"


def positive(name: str, value: float) -> Iterator[str]:
    """A number that is zero or less."""
    if not value > 0:
        yield f"{name} must be above zero"


def not_negative(name: str, value: float | NDArray[Any] | None) -> Iterator[str]:
    """A number below zero, or an array with one."""
    if value is not None and np.any(np.less(value, 0)):
        yield f"{name} must not be below zero"


def increase(values: NDArray[Any]) -> bool:
    """Whether each of the values is above the one before."""
    return bool((values[1:] > values[:-1]).all())


def are_counts(values: NDArray[Any], among: int | NDArray[Any]) -> bool:
    """Whether the values are from zero to as many as there are."""
    return bool(((values >= 0) & (values <= among)).all())


def patients_counted(patients: int) -> Iterator[str]:
    """A number of patients, by which sums are divided, that is none."""
    if not 0 <= patients <= MOST_PATIENTS:
        yield "patients is no count"
