"""Every answer of a run with every part of it replaced, as a faulty center might send it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from fedcox.engines.codec.tree import Tree, from_bytes, to_bytes
from fedcox.engines.nvflare import coordinator_end
from fedcox.engines.nvflare.transport import Silence

_WRONG: tuple[Tree, ...] = (
    None,
    True,
    7,
    -1,
    2**100,
    1.5,
    float("nan"),
    "x",
    b"x",
    [],
    [None],
    {},
    {"x": None},
    np.zeros(0),
    np.zeros((2, 2)),
    np.ones(1, dtype=np.bool_),
    np.ones(3, dtype=np.int64),
)


def spoilt(tree: Any) -> Iterator[Tree]:
    """The tree with one of its parts, itself included, replaced by something else."""
    yield from _WRONG
    if isinstance(tree, dict):
        for key, part in tree.items():
            yield {other: value for other, value in tree.items() if other != key}
            yield from ({**tree, key: wrong} for wrong in spoilt(part))
    elif isinstance(tree, list):
        for place, part in enumerate(tree):
            yield from ([*tree[:place], wrong, *tree[place + 1 :]] for wrong in spoilt(part))


def read_spoilt_ones_too(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """From here on every answer is read in all its spoilt forms first, which must not raise.

    Gives a list that grows by the number of those that were not taken for an answer.
    """
    real: Callable[..., Any] = coordinator_end._read
    refused: list[int] = []

    def read(answer: bytes | Silence, *where: Any) -> Any:
        if isinstance(answer, bytes):
            tree = from_bytes(answer)
            # A refusal has no body, and an answer no refusal: both are spoilt.
            trees = [*spoilt(tree)]
            assert isinstance(tree, dict)
            if tree["refused"] is None:
                trees += spoilt({**tree, "refused": {"reason": "busy", "rules": ["a rule"]}})
            found = [real(to_bytes(each), *where) for each in trees]
            refused.append(sum(isinstance(each, coordinator_end._Lost) for each in found))
        return real(answer, *where)

    monkeypatch.setattr(coordinator_end, "_read", read)
    return refused
