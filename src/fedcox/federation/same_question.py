"""Are two questions the same? Their numbers may have been computed on different machines.

Parameters and scales come out of linear algebra, whose last digits depend on the machine.
Everything else, the edges of intervals above all, must be equal to the last bit: a patient who
is censored on an edge would change the interval.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from fedcox.federation.query import AbstractQuery

_DIGITS = 1e-9
#: Parameters on the common scale, where an effect of this size is none.
_PARAMETERS = frozenset({"alpha", "beta"})
_SCALES = frozenset({"mean", "spread", "ridge", "scale", "learning_rate", "basis"})


def same_questions(
    asked: Sequence[AbstractQuery[Any]], expected: Sequence[AbstractQuery[Any]]
) -> bool:
    """Whether these are the same questions in the same order."""
    return len(asked) == len(expected) and all(map(_same, asked, expected))


def _same(one: object, other: object, name: str = "") -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return _same_arrays(np.array(one), np.array(other), name)
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return _same_arrays(one, other, name)
    if isinstance(one, tuple | list) and isinstance(other, tuple | list):
        return len(one) == len(other) and all(map(_same, one, other))
    if is_dataclass(one):
        # What begins with an underscore is kept for speed; it is no part of the question.
        names = [part.name for part in fields(one) if not part.name.startswith("_")]
        return all(_same(getattr(one, each), getattr(other, each), each) for each in names)
    return one is other or bool(one == other)


def _same_arrays(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any], name: str) -> bool:
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if name in _PARAMETERS:
        return bool(np.allclose(one, other, rtol=_DIGITS, atol=_DIGITS))
    if name in _SCALES:
        return bool(np.allclose(one, other, rtol=_DIGITS, atol=0.0))
    return np.array_equal(one, other)
