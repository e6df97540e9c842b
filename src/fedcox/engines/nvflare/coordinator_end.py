"""The coordinator's end: who answered, what is asked, and whether the study may go on."""

from __future__ import annotations

import secrets
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import accumulate
from typing import TYPE_CHECKING, Any, TypeVar, cast

from fedcox.engines.codec.questions import encode_questions, settings_brought
from fedcox.engines.codec.tree import Tree, to_bytes
from fedcox.engines.nvflare.messages import (
    Heading,
    Refusal,
    Reply,
    Step,
    read_answer,
    read_epsilons,
    read_replies,
    request,
    table,
)
from fedcox.engines.nvflare.transport import Silence, Transport
from fedcox.errors import CentersMissingError, MessageError, SecureSumError
from fedcox.federation.ledger import Ledger
from fedcox.federation.masked_center import MaskedReply
from fedcox.federation.query import (
    AbstractFederation,
    AbstractPrivateQuery,
    AbstractQuery,
)

if TYPE_CHECKING:
    from fedcox.privacy.secure_sum import Check


Read = TypeVar("Read")


@dataclass(frozen=True)
class MessageRound:
    """One round of messages, for whoever watches: seconds until each center answered."""

    number: int
    step: Step
    queries: tuple[str, ...]
    seconds: Mapping[str, float]
    lost: Mapping[str, str] = field(default_factory=dict)


Watch = Callable[[MessageRound], None]


class CoordinatorEnd:
    """Calls every center of a run; a center that failed once is not called again.

    `needed` centers must be left; one fewer, and the run stops with everything that went
    wrong. Whoever asks sees by `names` that a center is gone, and `on_going_on` hears, before
    the next message leaves, whom the run goes on without. `pings` empty rounds come before
    every question, to see how long the transport itself takes.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        needed: int,
        timeout: float,
        watch: Watch = lambda exchange: None,
    ) -> None:
        self.names = transport.names
        self.pings = 0
        self.lost: dict[str, str] = {}
        self.without: frozenset[str] = frozenset()  # those that the run went on without
        self.on_going_on: Callable[[frozenset[str]], None] = lambda without: None
        self._transport, self._needed, self._timeout, self._watch = (
            transport,
            needed,
            timeout,
            watch,
        )
        self._run = secrets.token_bytes(16)
        self._number = 0

    def ask(
        self,
        step: Step,
        bodies: Mapping[str, Tree],
        read: Callable[[str, Tree], Read],
        queries: tuple[str, ...] = (),
    ) -> dict[str, Read]:
        """One message to each named center, and what `read` makes of each answer.

        A center whose answer cannot be read is lost like one that does not answer.
        """
        self.ping(self.pings)
        answers, lost = self._exchanged(step, bodies, read, queries)
        for name, reason in lost.items():
            self.lost[name] = reason.words if isinstance(reason, Refusal) else reason
        self.names = tuple(name for name in self.names if name not in lost)
        if lost:
            self.check_number()
        return answers

    def try_once(
        self, step: Step, bodies: Mapping[str, Tree], read: Callable[[str, Tree], Read]
    ) -> tuple[dict[str, Read], dict[str, str | Refusal]]:
        """The same, but nobody is lost by it: for centers that may say yes later."""
        return self._exchanged(step, bodies, read, ())

    def ping(self, number: int) -> None:
        """Empty rounds, until one is not answered; no center is lost by them."""
        for _ in range(number):
            bodies: dict[str, Tree] = dict.fromkeys(self.names)
            _, silent = self.try_once("ping", bodies, lambda name, answer: None)
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
        queries: tuple[str, ...],
    ) -> tuple[dict[str, Read], dict[str, str | Refusal]]:
        self._number += 1
        heading = Heading(self._run, self._number, step)
        begun = time.monotonic()
        seconds: dict[str, float] = {}

        results: dict[str, Read | _Lost] = {}
        unread: list[tuple[str, bytes | Silence]] = []

        def read_them() -> None:
            while True:
                try:
                    name, answer = unread.pop()
                except IndexError:  # all are read, by this thread or another
                    return
                results[name] = _read(answer, heading, name, read)

        def heard(name: str, answer: bytes | Silence) -> None:
            seconds[name] = time.monotonic() - begun
            unread.append((name, answer))
            # While the last is at work, but not before: reading takes time from sending.
            if len(seconds) >= len(bodies) - 1:
                read_them()

        messages = {name: request(heading, body) for name, body in bodies.items()}
        self._transport.call(messages, self._timeout, heard)
        read_them()
        answers: dict[str, Read] = {}
        lost: dict[str, str | Refusal] = {}
        for name in sorted(bodies):
            each = results.get(name, _Lost("no answer"))
            if isinstance(each, _Lost):
                lost[name] = each.reason
            else:
                answers[name] = each
        words = {
            name: reason.words if isinstance(reason, Refusal) else reason
            for name, reason in lost.items()
        }
        self._watch(MessageRound(self._number, step, queries, seconds, words))
        return answers, lost


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
    words = " ".join([error.subject, *error.faults])
    return words.removesuffix(".")


class SentSettings:
    """What the queries of a run referred to so far; each setting goes to the centers once."""

    def __init__(self) -> None:
        self._names: set[bytes] = set()

    def encoded(self, queries: Sequence[AbstractQuery[Any]]) -> bytes:
        """Questions for all centers, with the settings that no earlier ones brought."""
        tree = encode_questions(queries, self._names)
        self._names.update(settings_brought(tree))
        return to_bytes(tree)


class RemoteFederation(AbstractFederation):
    """Asks every center that is left and combines in the order of names, as one process does.

    So the result is that of one process to the last bit. `patients` says how many each center
    has; by it they are numbered through, for batches over all of them. It is not known under
    noise, where nobody needs it.
    """

    shows_centers = True

    def __init__(
        self, end: CoordinatorEnd, columns: int, patients: Mapping[str, int] | None
    ) -> None:
        self.ledger = Ledger()
        self._end, self._columns, self._patients = end, columns, patients
        self._sent = SentSettings()

    @property
    def names(self) -> tuple[str, ...]:
        return self._end.names

    def ask_together(
        self,
        queries: Sequence[AbstractQuery[Any]],
        each: Sequence[AbstractQuery[Any]] = (),
    ) -> list[Any]:
        asked = [*queries, *each]
        self.ledger.open_round()
        questions = self._sent.encoded(asked)
        firsts = self._first_numbers()
        replies = self._end.ask(
            "ask",
            {
                name: {
                    "questions": questions,
                    "first": firsts[name],
                    "centers": list(self.names),
                }
                for name in self.names
            },
            lambda _, answer: read_replies(asked, answer, self._columns),
            tuple(query.name for query in asked),
        )
        down = [self.ledger.numbers_down(query) for query in asked]
        for place, query in enumerate(asked):
            for name, given in replies.items():
                self._record(name, query, given[place], down[place])
        combined = [
            reduce(query.combine, (given[place].answer for given in replies.values()))
            for place, query in enumerate(queries)
        ]
        return combined + [
            {name: given[place].answer for name, given in replies.items()}
            for place in range(len(queries), len(asked))
        ]

    def _first_numbers(self) -> dict[str, int | None]:
        """Where each center's patients begin when they are numbered over those left."""
        if self._patients is None:
            return dict.fromkeys(self.names)
        counts = [self._patients[name] for name in self.names]
        return dict(zip(self.names, accumulate([0, *counts]), strict=False))

    def _record(self, name: str, query: AbstractQuery[Any], reply: Reply, down: int) -> None:
        self.ledger.record(
            name,
            query.name,
            query.numbers_in(reply.answer),
            down,
            bytes_up=query.bytes_in(reply.answer),
            protection="noise" if isinstance(query, AbstractPrivateQuery) else "none",
            epsilon=reply.epsilon,
        )


class RemoteMaskedCenters:
    """Brings the messages of secure sums to the centers of a run.

    A center that fails, or whose message cannot be used, is left out of the replies, and
    `Masked` sums over the others as far as the protocol allows; that end stops the run
    where the study needs it.
    """

    def __init__(self, end: CoordinatorEnd) -> None:
        self._end = end
        self._sent = SentSettings()
        self._check: Check | None = None

    def check_by(self, check: Check) -> None:
        self._check = check

    def exchange(self, step: str, messages: Mapping[str, bytes]) -> dict[str, bytes]:
        bodies: dict[str, Tree] = dict(self._reachable(messages))
        return self._end.ask(cast(Step, step), bodies, self._checked)

    def ask(
        self, shares: Mapping[str, bytes], queries: Sequence[AbstractQuery[Any]], number: int
    ) -> dict[str, MaskedReply]:
        body: dict[str, Tree] = {
            "questions": self._sent.encoded(queries),
            "round": number,
            "centers": list(shares),
        }
        replies = self._end.ask(
            "masked",
            self._reachable({name: {**body, "shares": own} for name, own in shares.items()}),
            lambda name, answer: self._masked(name, answer, len(queries)),
            tuple(query.name for query in queries),
        )
        return self._of_one_length(replies)

    def _reachable(self, messages: Mapping[str, Tree]) -> dict[str, Tree]:
        """Those that did not fail before; a center that did is out of the run."""
        left = self._end.names
        return {name: message for name, message in messages.items() if name in left}

    def _masked(self, name: str, answer: Tree, number: int) -> MaskedReply:
        body = table(answer, "lengths", "message", "epsilons")
        lengths = body["lengths"]
        if not isinstance(lengths, list) or len(lengths) != number:
            raise MessageError("The lengths of its replies are not those of the questions.")
        if not all(type(length) is int and length >= 0 for length in lengths):
            raise MessageError("A length is a number of integers.")
        message = self._checked(name, body["message"])
        return MaskedReply(tuple(lengths), message, read_epsilons(body["epsilons"], number))

    def _checked(self, name: str, message: Tree) -> bytes:
        """A message of secure sums; the fault of one that cannot be used is its center's."""
        if not isinstance(message, bytes):
            raise MessageError("Bytes are expected.")
        try:
            if self._check is not None:
                self._check(name, message)
        except SecureSumError as error:
            raise MessageError(error.subject, error.faults) from error
        return message

    def _of_one_length(self, replies: Mapping[str, MaskedReply]) -> dict[str, MaskedReply]:
        """Those as long as the replies of more than half; without such, nobody is to blame."""
        sizes = {name: (reply.lengths, len(reply.message)) for name, reply in replies.items()}
        usual, number = Counter(sizes.values()).most_common(1)[0] if sizes else (None, 0)
        others = [name for name, size in sizes.items() if size != usual]
        if not others or 2 * number <= len(sizes):
            return dict(replies)
        for name in others:
            self._end.drop(name, "its reply is not as long as those of the others")
        self._end.check_number()
        return {name: reply for name, reply in replies.items() if name not in others}
