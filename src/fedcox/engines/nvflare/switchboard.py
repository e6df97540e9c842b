"""Who answered, and whether the study may go on without those who did not."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from fedcox.engines.codec.tree import Tree
from fedcox.engines.nvflare.line import Line, Silence
from fedcox.engines.nvflare.messages import Heading, Refusal, Step, read_answer, request
from fedcox.errors import CentersMissingError, MessageError

Read = TypeVar("Read")


@dataclass(frozen=True)
class Exchange:
    """One round of messages, for whoever watches: seconds until each center answered."""

    number: int
    step: Step
    questions: tuple[str, ...]
    seconds: Mapping[str, float]
    lost: Mapping[str, str] = field(default_factory=dict)


Watch = Callable[[Exchange], None]


class Switchboard:
    """Calls every center of a run; a center that failed once is not called again.

    `needed` centers must be left; one fewer, and the run stops with everything that went
    wrong. Whoever asks sees by `names` that a center is gone, and `on_going_on` hears, before
    the next message leaves, whom the run goes on without. `pings` empty rounds come before
    every question, to see how long the line itself takes.
    """

    def __init__(
        self,
        line: Line,
        *,
        needed: int,
        timeout: float,
        watch: Watch = lambda exchange: None,
    ) -> None:
        self.names = line.names
        self.pings = 0
        self.lost: dict[str, str] = {}
        self.without: frozenset[str] = frozenset()  # those that the run went on without
        self.on_going_on: Callable[[frozenset[str]], None] = lambda without: None
        self._line, self._needed, self._timeout, self._watch = line, needed, timeout, watch
        self._run = secrets.token_bytes(16)
        self._number = 0

    def ask(
        self,
        step: Step,
        bodies: Mapping[str, Tree],
        read: Callable[[str, Tree], Read],
        questions: tuple[str, ...] = (),
    ) -> dict[str, Read]:
        """One message to each named center, and what `read` makes of each answer.

        A center whose answer cannot be read is lost like one that does not answer.
        """
        self.ping(self.pings)
        found, lost = self._exchanged(step, bodies, read, questions)
        for name, reason in lost.items():
            self.lost[name] = reason.words if isinstance(reason, Refusal) else reason
        self.names = tuple(name for name in self.names if name not in lost)
        if lost:
            self.check_number()
        return found

    def try_once(
        self, step: Step, bodies: Mapping[str, Tree], read: Callable[[str, Tree], Read]
    ) -> tuple[dict[str, Read], dict[str, str | Refusal]]:
        """The same, but nobody is lost by it: for centers that may say yes later."""
        return self._exchanged(step, bodies, read, ())

    def ping(self, number: int) -> None:
        """Empty rounds, until one is not answered; no center is lost by them."""
        for _ in range(number):
            bodies: dict[str, Tree] = dict.fromkeys(self.names)
            _, silent = self.try_once("ping", bodies, lambda name, told: None)
            if silent:
                return

    def drop(self, name: str, reason: str) -> None:
        """Leave a center out from here on."""
        self.lost[name] = reason
        self.names = tuple(other for other in self.names if other != name)

    def check_number(self) -> None:
        """Raise who is missing where the study needs more centers than are left."""
        if len(self.names) >= self._needed:
            self.without = frozenset(self.lost)
            self.on_going_on(self.without)
            return
        raise CentersMissingError(
            f"{len(self.names)} centers are left, and the study needs {self._needed}.",
            [f"{name}: {reason}." for name, reason in sorted(self.lost.items())],
        )

    def _exchanged(
        self,
        step: Step,
        bodies: Mapping[str, Tree],
        read: Callable[[str, Tree], Read],
        questions: tuple[str, ...],
    ) -> tuple[dict[str, Read], dict[str, str | Refusal]]:
        self._number += 1
        heading = Heading(self._run, self._number, step)
        begun = time.monotonic()
        seconds: dict[str, float] = {}

        told: dict[str, Read | _Lost] = {}
        unread: list[tuple[str, bytes | Silence]] = []

        def read_them() -> None:
            while True:
                try:
                    name, answer = unread.pop()
                except IndexError:  # all are read, by this thread or another
                    return
                told[name] = _read(answer, heading, name, read)

        def heard(name: str, answer: bytes | Silence) -> None:
            seconds[name] = time.monotonic() - begun
            unread.append((name, answer))
            # While the last is at work, but not before: reading takes time from sending.
            if len(seconds) >= len(bodies) - 1:
                read_them()

        messages = {name: request(heading, body) for name, body in bodies.items()}
        self._line.call(messages, self._timeout, heard)
        read_them()
        found: dict[str, Read] = {}
        lost: dict[str, str | Refusal] = {}
        for name in sorted(bodies):
            each = told.get(name, _Lost("no answer"))
            if isinstance(each, _Lost):
                lost[name] = each.reason
            else:
                found[name] = each
        words = {
            name: reason.words if isinstance(reason, Refusal) else reason
            for name, reason in lost.items()
        }
        self._watch(Exchange(self._number, step, questions, seconds, words))
        return found, lost


@dataclass(frozen=True)
class _Lost:
    reason: str | Refusal


def _read(
    answer: bytes | Silence,
    heading: Heading,
    name: str,
    read: Callable[[str, Tree], Read],
) -> Read | _Lost:
    if isinstance(answer, Silence):
        return _Lost(answer.reason)
    try:
        body = read_answer(answer, heading)
        return _Lost(body) if isinstance(body, Refusal) else read(name, body)
    except MessageError as error:
        return _Lost(f"its answer cannot be used: {_sentence(error)}")


def _sentence(error: MessageError) -> str:
    told = " ".join([error.subject, *error.faults])
    return told.removesuffix(".")
