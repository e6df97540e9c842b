"""How does a reply travel? In the shape that its question dictates, and finite, or not at all.

What is wrong with one is told without any number of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fedcox.engines.codec.records import AbstractForm, UnusableError, form_of
from fedcox.engines.codec.tree import Tree
from fedcox.errors import InputError, MessageError
from fedcox.federation.queries import may_travel
from fedcox.federation.query import AbstractQuery, Answer, answer_type
from fedcox.federation.sums import Layout


def encode_reply(query: AbstractQuery[Answer], answer: Answer) -> Tree:
    """The tree of a reply to this question. It shares the reply's arrays."""
    form = _form(query)
    try:
        if query.sent_type is None:
            tree = form.write(answer, _nothing_shared)
            _check(query, answer, None)
        else:
            tree = form.write(_sent(query, answer), _nothing_shared)
            _check(query, _received(query, tree), None)
    except UnusableError as error:
        subject = f"The reply to '{query.name}' cannot be sent."
        raise MessageError(subject, error.faults) from None
    return tree


def decode_reply(query: AbstractQuery[Answer], tree: Tree, columns: int) -> Answer:
    """The reply of this tree; `columns` is how many columns the study's patients have."""
    form = _form(query)
    try:
        answer = _received(query, form.read(tree, _Alone(columns)))
        _check(query, answer, columns)
    except UnusableError as error:
        subject = f"The reply to '{query.name}' cannot be used."
        raise MessageError(subject, error.faults) from None
    return answer


@dataclass(frozen=True)
class _Alone:
    """Replies refer to nothing."""

    columns: int | None

    def referred(self, name: Tree) -> object:
        return _nothing_shared(name)


def _nothing_shared(value: object) -> Tree:
    raise UnusableError("must not refer to anything")


def _form(query: AbstractQuery[Any]) -> AbstractForm:
    kind = type(query)
    if kind not in may_travel():
        raise MessageError(f"Replies to '{query.name}' do not travel over a network.")
    return form_of(kind.sent_type or answer_type(kind))


def _sent(query: AbstractQuery[Answer], answer: Answer) -> Any:
    """A reply as it travels, where that is not as it is."""
    needed = answer_type(type(query))
    if type(answer) is not needed:
        raise UnusableError(f"must be a {needed.__name__}")
    return query.sent(answer)


def _received(query: AbstractQuery[Answer], sent: Any) -> Answer:
    try:
        return query.received(sent)
    except InputError as error:
        raise UnusableError(*error.faults) from None


def _check(query: AbstractQuery[Answer], answer: Answer, columns: int | None) -> None:
    layout = Layout(answer_type(type(query)), query.shapes(columns))
    faults = layout.faults(answer) or list(query.answer_faults(answer))
    if faults:
        raise UnusableError(*faults)
