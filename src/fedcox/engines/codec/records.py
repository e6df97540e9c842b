"""How does an object of a known class become a tree? Field by field, as it declares them.

The declared types say all: nothing is built that they do not allow, and a field more or less is
refused. What may travel are the queries of the folder, their answers, and what the fields of
these hold. What is shared between messages is only named; see `questions.py`.
"""

from __future__ import annotations

import inspect
import math
import typing
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import Any, Literal, Protocol

import numpy as np

from fedcox.engines.codec.tree import Tree
from fedcox.errors import InputError
from fedcox.federation.compression import AbstractCodec, EightBit, Float32, Sign, TopK
from fedcox.federation.fields import Unbounded, field_types, has_fields, without_none
from fedcox.federation.queries import may_travel
from fedcox.federation.query import Shared, answer_type
from fedcox.models.architecture import ARCHITECTURES, AbstractArchitecture
from fedcox.models.predictor import AbstractPredictor
from fedcox.models.predictors import all_predictors
from fedcox.survival.link import LINKS, AbstractLink

#: Which classes may stand where an abstract one is declared.
_FINAL: Mapping[type, tuple[type, ...]] = {
    AbstractLink: tuple(type(link) for link in LINKS.values()),
    AbstractCodec: (Float32, EightBit, Sign, TopK),
    AbstractPredictor: all_predictors(),
    AbstractArchitecture: tuple(ARCHITECTURES.values()),
}
#: A field's name cannot be this word.
_CLASS = "class"
#: Whole numbers up to this size are floats as well.
_EXACT = 2**53


class UnusableError(Exception):
    """What is wrong with a value, each fault behind the name of its field."""

    def __init__(self, *faults: str) -> None:
        super().__init__(*faults)
        self.faults = faults


#: Gives the name of something shared.
Refer = Callable[[Any], Tree]


class Source(Protocol):
    """What reading depends on besides the tree itself."""

    @property
    def columns(self) -> int | None:
        """How many columns the patients have, where that is known."""
        ...

    def referred(self, name: Tree) -> object:
        """What this is the name of."""
        ...


class AbstractForm(ABC):
    """One declared type: which values it allows, and the tree of each."""

    @abstractmethod
    def write(self, value: Any, refer: Refer) -> Tree:
        """The tree of a value, or UnusableError."""

    @abstractmethod
    def read(self, tree: Tree, source: Source) -> Any:
        """The value of a tree, or UnusableError."""


class AbstractPlain(AbstractForm):
    """Values that are their own trees."""

    @abstractmethod
    def fault(self, value: Any) -> str | None:
        """What is wrong with this value or tree."""

    def write(self, value: Any, refer: Refer) -> Tree:
        self._check(value)
        plain: Tree = value
        return plain

    def read(self, tree: Tree, source: Source) -> Any:
        self._check(tree)
        return tree

    def _check(self, value: object) -> None:
        fault = self.fault(value)
        if fault is not None:
            raise UnusableError(fault)


@dataclass(frozen=True)
class Exactly(AbstractPlain):
    """A whole number, a truth value or bytes."""

    kind: type
    words: str

    def fault(self, value: Any) -> str | None:
        return None if type(value) is self.kind else f"must be {self.words}"


@dataclass(frozen=True)
class Real(AbstractPlain):
    """A number, which may be a whole one; never NaN."""

    infinite: bool = False

    def fault(self, value: Any) -> str | None:
        if type(value) is int and abs(value) <= _EXACT:
            return None
        if not isinstance(value, float) or math.isnan(value):
            return "must be a number"
        return None if self.infinite or math.isfinite(value) else "must be finite"


@dataclass(frozen=True)
class Array(AbstractPlain):
    """Numbers or truth values of one type, in a shape that a rule judges."""

    dtype: np.dtype[Any]

    def fault(self, value: Any) -> str | None:
        if not isinstance(value, np.ndarray) or value.dtype != self.dtype:
            return f"must be an array of {self.dtype}"
        if self.dtype.kind == "f" and not np.isfinite(value).all():
            return "must be finite"
        return None


@dataclass(frozen=True)
class Word(AbstractForm):
    """One of a few choices, by its name."""

    choices: Mapping[str, object]

    def write(self, value: Any, refer: Refer) -> Tree:
        for word, choice in self.choices.items():
            if choice is value or (isinstance(value, str) and choice == value):
                return word
        raise self._unknown()

    def read(self, tree: Tree, source: Source) -> Any:
        if not isinstance(tree, str) or tree not in self.choices:
            raise self._unknown()
        return self.choices[tree]

    def _unknown(self) -> UnusableError:
        return UnusableError(f"must be one of {', '.join(self.choices)}")


@dataclass(frozen=True)
class Optional(AbstractForm):
    """A value or none."""

    inner: AbstractForm

    def write(self, value: Any, refer: Refer) -> Tree:
        return None if value is None else self.inner.write(value, refer)

    def read(self, tree: Tree, source: Source) -> Any:
        return None if tree is None else self.inner.read(tree, source)


@dataclass(frozen=True)
class Several(AbstractForm):
    """Any number of values of one type."""

    inner: AbstractForm

    def write(self, value: Any, refer: Refer) -> Tree:
        if not isinstance(value, tuple):
            raise UnusableError("must be a sequence")
        return [self.inner.write(entry, refer) for entry in value]

    def read(self, tree: Tree, source: Source) -> Any:
        if not isinstance(tree, list):
            raise UnusableError("must be a sequence")
        return tuple(self.inner.read(entry, source) for entry in tree)


@dataclass(frozen=True)
class Reference(AbstractForm):
    """Something shared, by its name."""

    kinds: tuple[type, ...]

    def write(self, value: Any, refer: Refer) -> Tree:
        self._check(value)
        return refer(value)

    def read(self, tree: Tree, source: Source) -> Any:
        value = source.referred(tree)
        self._check(value)
        return value

    def _check(self, value: object) -> None:
        if type(value) not in self.kinds:
            raise UnusableError(f"must be a {_names(self.kinds)}")


@dataclass(frozen=True)
class Record(AbstractForm):
    """An object of one of a few classes, by the name of the class and its fields."""

    kinds: tuple[type, ...]

    def write(self, value: Any, refer: Refer) -> Tree:
        kind: Any = type(value)
        if kind not in self.kinds:
            raise UnusableError(f"must be a {_names(self.kinds)}")
        tree: dict[str, Tree] = {_CLASS: kind.__name__}
        faults: list[str] = []
        for name, form in forms_of(kind).items():
            try:
                tree[name] = form.write(getattr(value, name), refer)
            except UnusableError as error:
                faults += (f"{name}: {fault}" for fault in error.faults)
        _raise(faults or faults_of(value, None))
        return tree

    def read(self, tree: Tree, source: Source) -> Any:
        kind = self._kind(tree)
        forms = forms_of(kind)
        if not isinstance(tree, dict) or set(tree) != {_CLASS, *forms}:
            needed = ", ".join(forms) or "no fields"
            raise UnusableError(f"a {kind.__name__} must have exactly: {needed}")
        values: dict[str, Any] = {}
        faults: list[str] = []
        for name, form in forms.items():
            try:
                values[name] = form.read(tree[name], source)
            except UnusableError as error:
                faults += (f"{name}: {fault}" for fault in error.faults)
        _raise(faults)
        try:
            value = kind(**values)
        except InputError as error:
            raise UnusableError(*(error.faults or [error.subject])) from None
        _raise(faults_of(value, source.columns))
        return value

    def _kind(self, tree: Tree) -> type:
        kind = kind_named(tree, self.kinds)
        if kind is None:
            raise UnusableError(f"must be a {_names(self.kinds)}")
        return kind


def kind_named(tree: Tree, kinds: tuple[type, ...]) -> type | None:
    """Which of these classes a tree says it is of."""
    named = tree.get(_CLASS) if isinstance(tree, dict) else None
    return _by_name(kinds).get(named) if isinstance(named, str) else None


@cache
def _by_name(kinds: tuple[type, ...]) -> Mapping[str, type]:
    return {kind.__name__: kind for kind in kinds}


def _raise(faults: Sequence[str]) -> None:
    if faults:
        raise UnusableError(*faults)


def _names(kinds: Sequence[type]) -> str:
    return " or ".join(kind.__name__ for kind in kinds)


def faults_of(value: Any, columns: int | None) -> list[str]:
    """What does not agree within an object whose fields are of their types, if it says so."""
    faults = getattr(value, "faults", None)
    return [] if faults is None else list(faults(columns))


@cache
def forms_of(kind: Any) -> Mapping[str, AbstractForm]:
    """The public fields of a class, as it declares them itself."""
    return {name: form_of(hint) for name, hint in field_types(kind).items()}


@cache
def travelling() -> tuple[type, ...]:
    """Every class that may travel: queries, answers, and what they hold or refer to."""
    kinds: dict[type, None] = {}
    for query in may_travel():
        _add_kinds(Record((query,)), kinds)
        _add_kinds(form_of(query.sent_type or answer_type(query)), kinds)
    return tuple(kinds)


def _add_kinds(form: AbstractForm, kinds: dict[type, None]) -> None:
    if isinstance(form, Optional | Several):
        _add_kinds(form.inner, kinds)
    elif isinstance(form, Record | Reference):
        for kind in form.kinds:
            kinds[kind] = None
            for part in forms_of(kind).values():
                _add_kinds(part, kinds)


@cache
def shared_kinds() -> tuple[type[Shared], ...]:
    """Classes of all that a query may refer to."""
    return tuple(kind for kind in travelling() if issubclass(kind, Shared))


def declare_all() -> None:
    """Look at every class that may travel now, and not when the first object of it does."""
    travelling()


_PLAIN: Mapping[object, AbstractForm] = {
    int: Exactly(int, "a whole number"),
    bool: Exactly(bool, "true or false"),
    bytes: Exactly(bytes, "bytes"),
    float: Real(),
    Unbounded: Real(infinite=True),
}


@cache
def form_of(hint: Any) -> AbstractForm:
    """The form of a declared type."""
    if hint in _PLAIN:
        return _PLAIN[hint]
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    present, optional = without_none(hint)
    if optional or len(present) > 1:
        inner = form_of(present[0]) if len(present) == 1 else Record(present)
        return Optional(inner) if optional else inner
    if origin is Literal:
        return Word({str(word): word for word in arguments})
    if origin is tuple and arguments[1:] == (Ellipsis,):
        return Several(form_of(arguments[0]))
    if origin is np.ndarray:
        return Array(np.dtype(typing.get_args(arguments[1])[0]))
    if isinstance(hint, type):
        return _form_of_class(hint)
    raise TypeError(f"A message cannot hold a {hint}.")


def _form_of_class(kind: type) -> AbstractForm:
    if issubclass(kind, Enum):
        return Word({member.value: member for member in kind})
    if issubclass(kind, Shared):
        return Reference((kind,))
    kinds = _FINAL.get(kind, (kind,))
    if not all(has_fields(each) and not inspect.isabstract(each) for each in kinds):
        raise TypeError(f"A message cannot hold a {kind.__name__}.")
    return Record(kinds)
