"""A center's replies to the questions of one round, with what each spends."""

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
    queries: Sequence[AbstractQuery[Any]], told: Tree, columns: int
) -> list[Reply]:
    """The same read again, every reply of the shape that its question dictates."""
    body = table(told, "replies", "epsilons")
    trees = body["replies"]
    if not isinstance(trees, list) or len(trees) != len(queries):
        raise MessageError(f"{len(queries)} questions were asked, and as many replies needed.")
    epsilons = read_epsilons(body["epsilons"], len(queries))
    return [
        Reply(decode_reply(query, tree, columns), epsilon)
        for query, tree, epsilon in zip(queries, trees, epsilons, strict=True)
    ]


def read_epsilons(told: Tree, number: int) -> tuple[float | None, ...]:
    """For the ledger: what each reply's study spends, or nothing."""
    if not isinstance(told, list) or len(told) != number or not all(map(_is_spent, told)):
        raise MessageError("Every reply comes with an epsilon, or none.")
    return tuple(told)  # type: ignore[arg-type]  # checked above


def _is_spent(epsilon: Tree) -> bool:
    return epsilon is None or (type(epsilon) is float and not math.isnan(epsilon))
