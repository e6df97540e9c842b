"""A center's replies to the questions of one round, with what it notes about each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fedcox.engines.codec.replies import decode_reply, encode_reply
from fedcox.engines.codec.tree import Tree
from fedcox.engines.nvflare.messages import table
from fedcox.errors import MessageError
from fedcox.federation.query import AbstractQuery


@dataclass(frozen=True, eq=False)
class Reply:
    """One reply; the fewest patients a part of it describes; the epsilon its study spends."""

    answer: Any
    group: int | None
    epsilon: float | None


def write_replies(queries: Sequence[AbstractQuery[Any]], replies: Sequence[Reply]) -> Tree:
    """The content of a center's answer."""
    return {
        "replies": [
            encode_reply(query, reply.answer)
            for query, reply in zip(queries, replies, strict=True)
        ],
        "noted": write_noted([(reply.group, reply.epsilon) for reply in replies]),
    }


def read_replies(
    queries: Sequence[AbstractQuery[Any]], told: Tree, columns: int
) -> list[Reply]:
    """The same read again, every reply of the shape that its question dictates."""
    body = table(told, "replies", "noted")
    trees = body["replies"]
    if not isinstance(trees, list) or len(trees) != len(queries):
        raise MessageError(f"{len(queries)} questions were asked, and as many replies needed.")
    noted = read_noted(body["noted"], len(queries))
    return [
        Reply(decode_reply(query, tree, columns), group, epsilon)
        for query, tree, (group, epsilon) in zip(queries, trees, noted, strict=True)
    ]


def write_noted(noted: Sequence[tuple[int | None, float | None]]) -> Tree:
    """For the ledger: groups and epsilons."""
    return [[group, epsilon] for group, epsilon in noted]


def read_noted(told: Tree, number: int) -> list[tuple[int | None, float | None]]:
    """The same read again."""
    if not isinstance(told, list) or len(told) != number:
        raise MessageError("Every reply comes with a group and an epsilon, or none.")
    return [_noted(pair) for pair in told]


def _noted(pair: Tree) -> tuple[int | None, float | None]:
    if isinstance(pair, list) and len(pair) == 2:
        group, epsilon = pair
        counted = group is None or (type(group) is int and group >= 0)
        spent = epsilon is None or (type(epsilon) is float and not math.isnan(epsilon))
        if counted and spent:
            return group, epsilon  # type: ignore[return-value]  # checked above
    raise MessageError("Every reply comes with a group and an epsilon, or none.")
