"""What every message between coordinator and center says besides its content.

A message names the run it belongs to, its number in it, and its step; the answer says the same.
So an answer that comes late, twice, or from an earlier run is known as such.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from fedcox.engines.codec.replies import decode_reply, encode_reply
from fedcox.engines.codec.tree import Tree, from_bytes, to_bytes
from fedcox.errors import MessageError
from fedcox.federation.query import AbstractQuery

#: Changes whenever a center of one version could misread a coordinator of another.
PROTOCOL = 3

Step = Literal[
    "ping",
    "hello",
    "study",
    "ask",
    "masked",
    "keys",
    "shares",
    "release",
    "recovery",
]
#: Why a center does not answer: nothing but this, and names of rules, leaves it.
Reason = Literal[
    "waiting",
    "busy",
    "declined",
    "version",
    "study",
    "file",
    "changed",
    "policy",
    "budget",
    "keys",
    "attendance",
    "order",
    "message",
    "sum",
    "fault",
]
REASONS: dict[str, str] = {
    "waiting": "its data manager has not approved the study yet",
    "busy": "an earlier job of the study has not ended there yet",
    "declined": "its data manager has declined the study",
    "version": "it runs another version of fedcox",
    "study": "it cannot read the study as it was sent",
    "file": "its file does not fit the study",
    "changed": "its patients have changed since the study's first answer",
    "policy": "its own policy refuses",
    "budget": "its patients' privacy budget does not cover the study",
    "keys": "the keys that it was shown are not those of the hospitals",
    "attendance": "the sum would be over fewer centers than the study was approved with",
    "order": "this is not what it agreed to be asked now",
    "message": "it cannot use the message",
    "sum": "it refuses to take part in this sum",
    "fault": "something went wrong at the center",
}


@dataclass(frozen=True)
class Heading:
    """Which run, which message of it, which step."""

    run: bytes
    number: int
    step: Step


@dataclass(frozen=True)
class Refusal:
    """A center's no, in words that hold nothing of its patients."""

    reason: Reason
    rules: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        words = REASONS[self.reason]
        return f"{words} ({', '.join(self.rules)})" if self.rules else words


def request(heading: Heading, body: Tree) -> bytes:
    """A message to a center."""
    return to_bytes(_headed(heading, body))


def answer(heading: Heading, body: Tree) -> bytes:
    """A center's answer to the message of this heading."""
    return to_bytes({**_headed(heading, body), "refused": None})


def refusal(heading: Heading | None, refused: Refusal) -> bytes:
    """A center's no; without a heading where the message could not be read that far."""
    content: Tree = {"reason": refused.reason, "rules": list(refused.rules)}
    where = Heading(b"", 0, "hello") if heading is None else heading
    return to_bytes({**_headed(where, None), "refused": content})


def read_request(message: bytes) -> tuple[Heading, Tree]:
    """What a center was sent."""
    tree = _fields(from_bytes(message), {"run", "number", "step", "body"})
    return _heading(tree), tree["body"]


def read_answer(message: bytes, asked: Heading) -> Tree | Refusal:
    """What a center answered to the message of this heading."""
    tree = _fields(from_bytes(message), {"run", "number", "step", "body", "refused"})
    refused = tree["refused"]
    if refused is not None:
        return _refusal(_fields(refused, {"reason", "rules"}))
    heading = _heading(tree)
    if heading.run != asked.run:
        raise MessageError("It is of another run.")
    if heading != asked:
        raise MessageError(
            f"It answers message {heading.number} ({heading.step}), not {asked.number} "
            f"({asked.step})."
        )
    body: Tree = tree["body"]
    return body


def table(tree: Tree, *fields: str) -> dict[str, Any]:
    """A body that is a table of exactly these entries."""
    return _fields(tree, set(fields))


def texts(tree: Tree) -> dict[str, str]:
    """A table of texts by name."""
    if not isinstance(tree, dict) or not all(isinstance(text, str) for text in tree.values()):
        raise MessageError("A table of texts is expected.")
    return {name: str(text) for name, text in tree.items()}


def names(tree: Tree) -> tuple[str, ...]:
    """A list of names."""
    if not isinstance(tree, list) or not all(isinstance(name, str) for name in tree):
        raise MessageError("A list of names is expected.")
    return tuple(map(str, tree))


def _headed(heading: Heading, body: Tree) -> dict[str, Tree]:
    return {"run": heading.run, "number": heading.number, "step": heading.step, "body": body}


def _heading(tree: dict[str, Any]) -> Heading:
    run, number, step = tree["run"], tree["number"], tree["step"]
    known = isinstance(step, str) and step in get_args(Step)
    if not known or not isinstance(run, bytes) or type(number) is not int:
        raise MessageError("Its heading cannot be read.")
    return Heading(run, number, step)


def _refusal(tree: dict[str, Any]) -> Refusal:
    reason, rules = tree["reason"], names(tree["rules"])
    known = isinstance(reason, str) and reason in REASONS
    if not known or len(rules) > 20 or not all(map(_is_rule, rules)):
        raise MessageError("It refuses for a reason that is none of fedcox's.")
    return Refusal(reason, rules)


def _is_rule(text: str) -> bool:
    return 0 < len(text) <= 60 and text.isprintable()


def _fields(tree: Tree, expected: Collection[str]) -> dict[str, Any]:
    if not isinstance(tree, dict) or set(tree) != set(expected):
        raise MessageError(f"It must hold exactly: {', '.join(sorted(expected))}.")
    return dict(tree)


@dataclass(frozen=True, eq=False)
class Reply:
    """One reply, and the epsilon that its study spends."""

    answer: Any
    epsilon: float | None


def write_replies(queries: Sequence[AbstractQuery[Any]], replies: Sequence[Reply]) -> Tree:
    """The content of a center's answer."""
    return {
        "replies": [
            encode_reply(query, reply.answer)
            for query, reply in zip(queries, replies, strict=True)
        ],
        "epsilons": [reply.epsilon for reply in replies],
    }


def read_replies(
    queries: Sequence[AbstractQuery[Any]], answer: Tree, columns: int
) -> list[Reply]:
    """The same read again, every reply of the shape that its question dictates."""
    body = table(answer, "replies", "epsilons")
    trees = body["replies"]
    if not isinstance(trees, list) or len(trees) != len(queries):
        raise MessageError(f"{len(queries)} questions were asked, and as many replies needed.")
    epsilons = read_epsilons(body["epsilons"], len(queries))
    return [
        Reply(decode_reply(query, tree, columns), epsilon)
        for query, tree, epsilon in zip(queries, trees, epsilons, strict=True)
    ]


def read_epsilons(epsilons: Tree, number: int) -> tuple[float | None, ...]:
    """For the ledger: what each reply's study spends, or nothing."""
    if (
        not isinstance(epsilons, list)
        or len(epsilons) != number
        or not all(map(_is_spent, epsilons))
    ):
        raise MessageError("Every reply comes with an epsilon, or none.")
    return tuple(epsilons)  # type: ignore[arg-type]  # checked above


def _is_spent(epsilon: Tree) -> bool:
    return epsilon is None or (type(epsilon) is float and not math.isnan(epsilon))
