"""How does a reply travel? In the shape that its question dictates, and finite, or not at all.

What is wrong with one is told without any number of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedcox.engines.codec.kinds import QUESTIONS, Kind, Shapes
from fedcox.engines.codec.records import UnusableError, declared, form_of
from fedcox.engines.codec.tree import Tree
from fedcox.errors import InputError, MessageError
from fedcox.federation.queries.compressed_gradient import (
    AbstractCompressedGradient,
    CompressedGradient,
)
from fedcox.federation.query import AbstractQuery, Answer


def encode_reply(query: AbstractQuery[Answer], answer: Answer) -> Tree:
    """The tree of a reply to this question. It shares the reply's arrays."""
    kind = _kind(query)
    try:
        if isinstance(query, AbstractCompressedGradient):
            return _payload(query, answer)
        tree = form_of(kind.reply).write(answer, _nothing_shared)
        _raise(_faults(query, kind, answer, None))
    except UnusableError as error:
        told = f"The reply to '{query.name}' cannot be sent."
        raise MessageError(told, error.faults) from None
    return tree


def decode_reply(query: AbstractQuery[Answer], tree: Tree, columns: int) -> Answer:
    """The reply of this tree; `columns` is how many columns the study's patients have."""
    kind = _kind(query)
    try:
        answer = form_of(kind.reply).read(tree, _Alone(columns))
        if isinstance(query, AbstractCompressedGradient):
            answer = _from_payload(query, answer)
        else:
            _raise(_faults(query, kind, answer, columns))
    except UnusableError as error:
        told = f"The reply to '{query.name}' cannot be used."
        raise MessageError(told, error.faults) from None
    found: Answer = answer
    return found


@dataclass(frozen=True)
class _Alone:
    """Replies refer to nothing."""

    columns: int | None

    def referred(self, name: Tree) -> object:
        return _nothing_shared(name)


def _nothing_shared(value: object) -> Tree:
    raise UnusableError("must not refer to anything")


def _kind(query: AbstractQuery[Any]) -> Kind:
    kind = QUESTIONS.get(type(query))
    if kind is None:
        raise MessageError(f"Replies to '{query.name}' do not travel over a network.")
    return kind


def _payload(query: AbstractCompressedGradient, answer: object) -> Tree:
    """A compressed reply as it travels."""
    if type(answer) is not CompressedGradient:
        raise UnusableError("must be a CompressedGradient")
    _from_payload(query, answer.payload)
    return answer.payload


def _from_payload(query: AbstractCompressedGradient, payload: bytes) -> CompressedGradient:
    """A compressed reply as it arrives."""
    try:
        with np.errstate(all="ignore"):  # what is not finite is refused below
            found = query.read(payload)
    except InputError as error:
        raise UnusableError(*error.faults) from None
    if not (np.isfinite(found.loss) and np.isfinite(found.gradient).all()):
        raise UnusableError("must be finite")
    return found


def _faults(
    query: AbstractQuery[Any], kind: Kind, answer: Any, columns: int | None
) -> Iterator[str]:
    expected, found = kind.shapes(query, columns), _shapes(answer)
    faults = list(_unlike(expected, found))
    yield from faults or kind.fits(query, answer)


def _shapes(value: object, name: str = "") -> Shapes:
    """Of every array in a reply, by the names of its fields."""
    if isinstance(value, np.ndarray):
        return {name: value.shape}
    if value is None:
        return {name: None}
    if isinstance(value, int | float):
        return {}
    return {
        place: shape
        for field in declared(type(value))
        for place, shape in _shapes(
            getattr(value, field), f"{name}: {field}" if name else field
        ).items()
    }


def _unlike(expected: Shapes, found: Shapes) -> Iterator[str]:
    for name in {**expected, **found}:
        wanted, place = expected.get(name), f"{name}: " if name else ""
        if wanted is None:
            if found.get(name) is not None:
                yield f"{place}must not be there"
        elif not _like(wanted, found.get(name)):
            lengths = ", ".join("any" if size is None else str(size) for size in wanted)
            yield f"{place}must be an array of shape ({lengths})"


def _like(wanted: tuple[int | None, ...], found: tuple[int | None, ...] | None) -> bool:
    return (
        found is not None
        and len(wanted) == len(found)
        and all(size in (None, other) for size, other in zip(wanted, found, strict=True))
    )


def _raise(faults: Iterator[str]) -> None:
    told = list(faults)
    if told:
        raise UnusableError(*told)
