"""How do the questions of one round travel? What they refer to goes once, then by name.

The name of a setting is its digest, so that the same name is the same setting in every message.
What a center prepared, or has not sent yet, hangs on the object; so the same name is the same
object too.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, MutableMapping, Sequence
from typing import Any, cast
from weakref import WeakKeyDictionary

from fedcox.engines.codec.records import Record, UnusableError, kind_named, shared_kinds
from fedcox.engines.codec.tree import Tree
from fedcox.errors import MessageError
from fedcox.federation.digest import digest
from fedcox.federation.queries import may_travel
from fedcox.federation.query import AbstractQuery, Shared

_NAME_BYTES = 32
_MOST_QUESTIONS = 1000
_BEGUN_ELSEWHERE = (
    "It goes on with a search whose earlier steps are not known here, nor what they left "
    "unsent. Begin the search anew."
)

_names: WeakKeyDictionary[Shared, bytes] = WeakKeyDictionary()


def setting_digest(setting: Shared) -> bytes:
    """The name by which questions refer to it: random, where its content does not say it."""
    name = _names.get(setting)
    if name is None:
        known = setting.named_by_content
        name = digest(setting) if known else secrets.token_bytes(_NAME_BYTES)
        _names[setting] = name
    return name


def encode_questions(queries: Sequence[AbstractQuery[Any]], known: Collection[bytes]) -> Tree:
    """The tree of these questions; settings whose digest is `known` are only named.

    It shares the questions' arrays.
    """
    outgoing = _Outgoing(known)
    questions = [_encoded(query, outgoing) for query in queries]
    brought: list[Tree] = [
        {"name": name, "value": tree} for name, tree in outgoing.brought.items()
    ]
    return {"settings": brought, "questions": questions}


def settings_brought(tree: Tree) -> list[bytes]:
    """Digests of all that an encoded message brings, which need not be brought again."""
    brought = cast("dict[str, list[dict[str, bytes]]]", tree)["settings"]
    return [entry["name"] for entry in brought]


def decode_questions(
    tree: Tree, settings: MutableMapping[bytes, Shared], *, columns: int | None = None
) -> list[AbstractQuery[Any]]:
    """The questions of a tree, or a MessageError that says which one is wrong.

    `settings` are those that earlier messages brought; those of this one are added, and what
    was used last comes last. `columns` is how many columns the patients have. Where anything is
    wrong with the message, nothing of it is kept.
    """
    brought, questions = _content(tree)
    incoming = _Incoming(settings, columns)
    for entry in brought:
        incoming.add(entry)
    queries = [_decoded(question, incoming) for question in questions]
    incoming.keep()
    return queries


class _Outgoing:
    """Names what questions refer to, and collects what the centers do not know yet."""

    def __init__(self, known: Collection[bytes]) -> None:
        self._known = known
        self.brought: dict[bytes, Tree] = {}

    def refer(self, value: Shared) -> Tree:
        name = setting_digest(value)
        if name not in self._known and name not in self.brought:
            # What it refers to itself comes before it.
            tree = Record(shared_kinds()).write(value, self.refer)
            self.brought[name] = tree
        return name


class _Incoming:
    """Finds what questions refer to, in this message or in earlier ones."""

    def __init__(self, settings: MutableMapping[bytes, Shared], columns: int | None) -> None:
        self.columns = columns
        self._settings = settings
        self._brought: dict[bytes, Shared] = {}
        self._used: dict[bytes, Shared] = {}

    def referred(self, name: Tree) -> object:
        if not isinstance(name, bytes):
            raise UnusableError("must be a name")
        value = self._brought.get(name, self._settings.get(name))
        if value is None:
            raise UnusableError("is not known here, and was not brought along")
        self._used[name] = value
        return value

    def add(self, entry: Tree) -> None:
        """Read a setting that the message brings."""
        if not isinstance(entry, dict) or set(entry) != {"name", "value"}:
            raise _unreadable()
        name, kind = entry["name"], kind_named(entry["value"], shared_kinds())
        if not isinstance(name, bytes) or len(name) != _NAME_BYTES or name in self._brought:
            raise _unreadable()
        try:
            value: Shared = Record(shared_kinds()).read(entry["value"], self)
        except UnusableError as error:
            subject = "A setting" if kind is None else f"The {kind.__name__}"
            raise MessageError(
                f"{subject} of a message cannot be used.", error.faults
            ) from None
        if value.named_by_content:
            if digest(value) != name:
                raise MessageError(f"A {type(value).__name__} is not what its name says.")
            _names[value] = name
        # One that is here already has something prepared for it.
        self._brought[name] = self._settings.get(name, value)

    def is_new(self, value: Shared) -> bool:
        """Whether no earlier message brought it."""
        return all(value is not kept for kept in self._settings.values())

    def keep(self) -> None:
        for name, value in self._used.items():
            self._settings.pop(name, None)
            self._settings[name] = value


def _encoded(query: AbstractQuery[Any], outgoing: _Outgoing) -> Tree:
    try:
        return Record(may_travel()).write(query, outgoing.refer)
    except UnusableError as error:
        kind = type(query)
        faults = error.faults if kind in may_travel() else _not_a_kind(kind.__name__)
        raise MessageError(f"The question '{query.name}' cannot be sent.", faults) from None


def _decoded(tree: Tree, incoming: _Incoming) -> AbstractQuery[Any]:
    kind = kind_named(tree, may_travel())
    if kind is None:
        raise MessageError("A question cannot be used.", _not_a_kind(_name_shown(tree)))
    try:
        query: AbstractQuery[Any] = Record(may_travel()).read(tree, incoming)
    except UnusableError as error:
        faults = error.faults
    else:
        if query.continues is None or not incoming.is_new(query.continues):
            return query
        faults = (_BEGUN_ELSEWHERE,)
    raise MessageError(f"The question {kind.__name__} cannot be used.", faults)


def _content(tree: Tree) -> tuple[list[Tree], list[Tree]]:
    if not isinstance(tree, dict) or set(tree) != {"settings", "questions"}:
        raise _unreadable()
    settings, questions = tree["settings"], tree["questions"]
    if not isinstance(settings, list) or not isinstance(questions, list):
        raise _unreadable()
    if max(len(settings), len(questions)) > _MOST_QUESTIONS:
        raise MessageError(f"A message holds more than {_MOST_QUESTIONS} questions.")
    return settings, questions


def _unreadable() -> MessageError:
    return MessageError("The questions of a message cannot be read.")


def _not_a_kind(name: str) -> list[str]:
    return [
        f"{name} is none of the questions that may be asked over a network: "
        f"{', '.join(sorted(kind.__name__ for kind in may_travel()))}. Do all run the same "
        "version of fedcox?"
    ]


def _name_shown(tree: Tree) -> str:
    named = tree.get("class") if isinstance(tree, dict) else None
    plain = isinstance(named, str) and named.isidentifier() and len(named) <= 60
    return str(named) if plain else "What was asked"
