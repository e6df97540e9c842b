"""What does a class say of its fields? Their names and types, in the order it declares them.

Messages, fingerprints and sums of answers all follow from this. Fields that begin with an
underscore are a process's own: they are in none of them.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Annotated, Any

#: A number that may be infinite; all others are finite.
Unbounded = Annotated[float, "may be infinite"]


@cache
def field_names(kind: Any) -> tuple[str, ...]:
    """The public fields of a dataclass or a named tuple."""
    if is_dataclass(kind):
        return tuple(part.name for part in fields(kind) if not part.name.startswith("_"))
    return tuple(kind._fields)


@cache
def field_types(kind: Any) -> Mapping[str, Any]:
    """The declared type of every public field."""
    if not is_dataclass(kind):
        return typing.get_type_hints(kind)
    # Not those of the classes above it, which may name what they do not import.
    own: Any = kind
    declared = inspect.get_annotations(own, eval_str=True)
    return {name: declared[name] for name in field_names(own)}


def has_fields(kind: Any) -> bool:
    """Whether a type is a dataclass or a named tuple."""
    if not isinstance(kind, type):
        return False
    return is_dataclass(kind) or (issubclass(kind, tuple) and hasattr(kind, "_fields"))


def without_none(kind: Any) -> tuple[tuple[Any, ...], bool]:
    """The types of a union but None, and whether None was one of them."""
    if typing.get_origin(kind) not in (types.UnionType, typing.Union):
        return (kind,), False
    present = tuple(each for each in typing.get_args(kind) if each is not type(None))
    return present, len(present) < len(typing.get_args(kind))
