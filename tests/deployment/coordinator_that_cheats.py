"""What a coordinator might try, put into the process of its study; hospitals run as they are.

Python imports it there by itself, as `sitecustomize`. The attack is named in a file, which is
read when a study begins; what hospitals said to it goes into another.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedcox.engines.nvflare.transport import Heard, Silence

#: Where the two files are.
PLACE = "FEDCOX_TEST_CHEATS"
ATTACK, ANSWERS = "attack", "answers.jsonl"
#: The center that is dropped, and after how many rounds of questions.
DROPPED, ROUNDS = "D", 3


class Cheat:
    """The line to the centers, with an attack in it."""

    def __init__(self, place: Path) -> None:
        from fedcox.engines.nvflare.transport import CollabTransport

        self.attack = (place / ATTACK).read_text(encoding="utf-8")
        self._answers, self._true = place / ANSWERS, CollabTransport.call
        self._rounds = 0

    def call(
        self, line: Any, messages: Mapping[str, bytes], timeout: float, heard: Heard
    ) -> None:
        """In place of the line's own."""
        from fedcox.engines.codec.tree import from_bytes

        message: Any = from_bytes(next(iter(messages.values())))
        step = message["step"]
        self._rounds += step == "masked"
        if self.attack == "drop" and self._rounds > ROUNDS:
            self._without_one(line, step, messages, timeout, heard)
            return
        self._true(line, messages, timeout, heard)
        if self.attack == "replay" and step in ("study", "masked", "release"):
            self._true(line, messages, timeout, partial(self._write, step))

    def _without_one(
        self,
        line: Any,
        step: str,
        messages: Mapping[str, bytes],
        timeout: float,
        heard: Heard,
    ) -> None:
        from fedcox.engines.nvflare.transport import Silence

        def told(name: str, answer: bytes | Silence) -> None:
            self._write(step, name, answer)
            heard(name, answer)

        left = {name: text for name, text in messages.items() if name != DROPPED}
        self._true(line, left, timeout, told)
        if DROPPED in messages:
            heard(DROPPED, Silence("dropped"))

    def _write(self, step: str, name: str, answer: bytes | Silence) -> None:
        from fedcox.engines.codec.tree import from_bytes

        tree: Any = from_bytes(answer) if isinstance(answer, bytes) else {"refused": None}
        refused = tree["refused"]
        row = {"step": step, "center": name, "refused": refused and refused["reason"]}
        with self._answers.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")


def cheat(place: Path) -> None:
    """Take the place of the line to the centers, and be content with one of them."""
    from fedcox.deployment import study_run as conduct
    from fedcox.engines.nvflare.coordinator_end import CoordinatorEnd
    from fedcox.engines.nvflare.transport import CollabTransport

    cheating = Cheat(place)
    CollabTransport.call = lambda line, *told: cheating.call(line, *told)  # type: ignore[method-assign]
    if cheating.attack == "drop":
        content = partial(_content_with_one, CoordinatorEnd)
        setattr(conduct, "CoordinatorEnd", content)  # noqa: B010  # not a name that it gives away


def _content_with_one(board: Any, line: Any, **how: Any) -> Any:
    return board(line, **{**how, "needed": 1})


if PLACE in os.environ and any("runner_process" in word for word in sys.orig_argv):
    cheat(Path(os.environ[PLACE]))
