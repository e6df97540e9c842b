"""Answers as vectors, which can be added, masked, noised and counted.

All follows from the fields of an answer's class and from the shapes that its query declares:
numbers and arrays stand in the vector in the order of the fields, arrays row by row.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, Self, TypeAlias, get_origin

import numpy as np

from fedcox.federation.fields import field_names, field_types, has_fields, without_none
from fedcox.survival.cohort import FloatArray


class FieldSum:
    """A dataclass that adds field by field."""

    def __add__(self, other: Self) -> Self:
        kind: Any = type(self)
        names = field_names(kind)
        total: Self = kind(*[getattr(self, name) + getattr(other, name) for name in names])
        return total


@dataclass(frozen=True)
class Symmetric:
    """The shape of a symmetric square, of which the triangle is sent, row by row."""

    size: int

    @property
    def lengths(self) -> tuple[int, int]:
        return self.size, self.size


Shape: TypeAlias = tuple[int | None, ...] | Symmetric
#: An answer's arrays by the names of their fields, "a: b" for a field of a field and "" for an
#: answer that is one array. A length of None is any; an array that is not named is not there.
Shapes: TypeAlias = Mapping[str, Shape]


def triangle(size: int) -> int:
    """Entries of a symmetric matrix on and above the diagonal."""
    return size * (size + 1) // 2


def pack_symmetric(square: FloatArray) -> FloatArray:
    """The upper triangle, row by row."""
    return np.asarray(square[np.triu_indices(len(square))])


def unpack_symmetric(upper: FloatArray) -> FloatArray:
    """The square matrix with this upper triangle."""
    size = int(np.sqrt(2 * upper.size))
    square = np.zeros((size, size))
    square[np.triu_indices(size)] = upper
    return np.asarray(square + np.triu(square, 1).T)


@dataclass(frozen=True)
class Part:
    """A number or an array that an answer may have: where it is, and of which type."""

    place: tuple[str, ...]
    kind: Any

    @cached_property
    def name(self) -> str:
        return ": ".join(self.place)

    @cached_property
    def is_number(self) -> bool:
        return self.kind in (int, float)

    def of(self, answer: Any) -> Any:
        """The part of this answer, None where it has none."""
        for name in self.place:
            answer = None if answer is None else getattr(answer, name)
        return answer

    def size(self, shape: Shape | None) -> int | None:
        """How many numbers of a vector it takes in this shape, None for any."""
        if isinstance(shape, Symmetric):
            return triangle(shape.size)
        if shape is None:
            return 1
        known = [length for length in shape if length is not None]
        return math.prod(known) if len(known) == len(shape) else None

    def pack(self, value: Any, shape: Shape | None) -> FloatArray:
        if isinstance(shape, Symmetric):
            return pack_symmetric(value)
        return np.asarray(value, dtype=np.float64).ravel()

    def unpack(self, vector: FloatArray, shape: Shape | None) -> Any:
        if self.is_number:
            return round(float(vector[0])) if self.kind is int else float(vector[0])
        if isinstance(shape, Symmetric):
            return unpack_symmetric(vector)
        known = shape is not None and None not in shape
        return vector.reshape(shape) if known else vector

    def fault(self, value: Any, shape: Shape | None) -> str | None:
        """What is wrong with the shape of an array, without any number of it."""
        place = f"{self.name}: " if self.name else ""
        if shape is None:
            return None if value is None else f"{place}must not be there"
        lengths = shape.lengths if isinstance(shape, Symmetric) else shape
        if value is not None and _alike(lengths, value.shape):
            return None
        shown = ", ".join("any" if length is None else str(length) for length in lengths)
        return f"{place}must be an array of shape ({shown})"


def _alike(lengths: tuple[int | None, ...], shape: tuple[int, ...]) -> bool:
    return lengths == shape or (
        len(lengths) == len(shape)
        and all(length in (None, found) for length, found in zip(lengths, shape, strict=True))
    )


@cache
def parts_of(answer: Any) -> tuple[Part, ...]:
    """Every number and array that answers of a type may have, in their order."""
    return tuple(_parts(answer, ()))


def _parts(kind: Any, place: tuple[str, ...]) -> Iterator[Part]:
    (kind, *_), _ = without_none(kind)
    if has_fields(kind):
        for name, inner in field_types(kind).items():
            yield from _parts(inner, (*place, name))
    elif kind in (int, float) or get_origin(kind) is np.ndarray:
        yield Part(place, kind)


@dataclass(frozen=True)
class Layout:
    """How answers of a type, with arrays of these shapes, lie in a vector."""

    answer: Any
    shapes: Shapes

    @cached_property
    def parts(self) -> tuple[tuple[Part, Shape | None], ...]:
        return tuple((part, self.shapes.get(part.name)) for part in parts_of(self.answer))

    @cached_property
    def present(self) -> tuple[tuple[Part, Shape | None], ...]:
        """All but arrays that are not there."""
        return tuple(
            (part, shape) for part, shape in self.parts if part.is_number or shape is not None
        )

    def pack(self, answer: Any) -> FloatArray:
        """The answer's numbers; of a symmetric block the upper triangle."""
        return np.concatenate(
            [part.pack(part.of(answer), shape) for part, shape in self.present]
        )

    def unpack(self, vector: FloatArray) -> Any:
        """The answer whose `pack` this is; arrays of any length share what is left."""
        sizes = [part.size(shape) for part, shape in self.present]
        left = vector.size - sum(size for size in sizes if size is not None)
        values, start = {}, 0
        for (part, shape), size in zip(self.present, sizes, strict=True):
            end = start + (left // sizes.count(None) if size is None else size)
            values[part.place] = part.unpack(vector[start:end], shape)
            start = end
        return _built(self.answer, (), values)

    def numbers(self, answer: Any) -> int:
        """How many numbers an answer holds; symmetric blocks count once."""
        values = ((part.of(answer), shape) for part, shape in self.parts)
        return sum(
            triangle(len(value)) if isinstance(shape, Symmetric) else np.size(value)
            for value, shape in values
            if value is not None
        )

    def faults(self, answer: Any) -> list[str]:
        """Arrays of other shapes, and those that must not be there."""
        arrays = [(part, shape) for part, shape in self.parts if not part.is_number]
        return list(
            filter(None, (part.fault(part.of(answer), shape) for part, shape in arrays))
        )


def _built(kind: Any, place: tuple[str, ...], values: Mapping[tuple[str, ...], Any]) -> Any:
    (kind, *_), optional = without_none(kind)
    there = any(known[: len(place)] == place for known in values)
    if not has_fields(kind) or (optional and not there):
        return values.get(place)
    fields = field_types(kind).items()
    return kind(**{name: _built(inner, (*place, name), values) for name, inner in fields})
