"""What must the choices of a network's solver be? One sentence for each that is not."""

from __future__ import annotations

import math
from collections.abc import Iterator
from numbers import Integral, Real


def not_counts(choices: object, *names: str) -> Iterator[str]:
    """Choices that must be whole numbers of at least one; None stands for no choice."""
    for name in names:
        value = getattr(choices, name)
        if value is not None and not _whole(value):
            yield f"{name} is {value!r}; it must be a whole number, at least 1."


def not_positive(choices: object, *names: str) -> Iterator[str]:
    """Choices that must be numbers above zero."""
    for name in names:
        value = getattr(choices, name)
        if not (is_number(value) and value > 0):
            yield f"{name} is {value!r}; it must be a number above 0."


def not_within(choices: object, name: str, *, zero: bool) -> Iterator[str]:
    """A share: from zero to below one, or from above zero to one."""
    value = getattr(choices, name)
    if not is_number(value) or not (0 <= value < 1 if zero else 0 < value <= 1):
        words = "from 0 to below 1" if zero else "above 0, up to 1"
        yield f"{name} is {value!r}; it is a share, {words}."


def not_among(choices: object, name: str, *allowed: str) -> Iterator[str]:
    """A choice of another name."""
    value = getattr(choices, name)
    if value not in allowed:
        yield f"{name} is {value!r}; it must be {' or '.join(map(repr, allowed))}."


def is_number(value: object) -> bool:
    """Whether it is a finite number, and no truth value."""
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)


def _whole(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 1
