"""One center as the coordinator's messages find it: what it agreed to, and what it answers.

Everything that could go wrong here is answered with one of a few reasons; the words for it, and
any trace of an error, stay in the hospital.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from fedcox.engines.codec.questions import decode_questions
from fedcox.engines.codec.tree import Tree, from_bytes
from fedcox.engines.nvflare.messages import (
    PROTOCOL,
    Heading,
    Refusal,
    Reply,
    answer,
    names,
    read_request,
    refusal,
    table,
    texts,
    write_replies,
)
from fedcox.errors import (
    BudgetError,
    BusyError,
    ChangedError,
    CohortError,
    MessageError,
    PolicyError,
    RefusedError,
    SecureSumError,
)
from fedcox.federation.policy import Policy
from fedcox.federation.query import AbstractPrivateQuery, AbstractQuery, Shared

if TYPE_CHECKING:
    from fedcox.federation.center import Center
    from fedcox.federation.masked_center import MaskedCenter

#: A rule as faults of a policy begin with: `exact_sums: …`.
_RULE = re.compile(rf"({'|'.join(Policy.model_fields)}):")
#: What was used last is kept; a study has a handful.
_SETTINGS_KEPT = 8


class NotNowError(Exception):
    """The study is not open at this center; the reason may be told."""

    def __init__(self, reason: Refusal) -> None:
        super().__init__(reason.words)
        self.reason = reason


@dataclass(frozen=True)
class Invitation:
    """What a coordinator asks a center to take part in."""

    study: str  # the study file's text
    centers: tuple[str, ...]
    identities: dict[str, str]  # public identities by center
    version: str


@dataclass(frozen=True, eq=False)
class OpenStudy:
    """A study that this center takes part in.

    `asked` are the questions that were agreed to, by name. Where sums are masked, `masked` is
    the center's part in them and nothing is answered without a mask; where `noise_only` is
    set, nothing without noise. `mark` is a random word that is another one as soon as the
    patients are others. `allows` says whether a question, asked of these centers, is about
    what the study fixes, and `enough` whether so many of them as were agreed on are asked.
    """

    center: Center
    asked: frozenset[str]
    schema: bytes
    masked: MaskedCenter | None = None
    noise_only: bool = False
    mark: str = ""
    allows: Callable[[AbstractQuery[Any], Sequence[str]], bool] = lambda query, centers: True
    enough: Callable[[Sequence[str]], bool] = lambda centers: True


@dataclass(frozen=True)
class Leaving:
    """A reply on its way out, for the hospital's own ledger."""

    question: str
    numbers: int
    protection: str
    epsilon: float | None


class Admission(Protocol):
    """The hospital's word behind its end: which studies are let in, what is written down."""

    def introduce(self) -> dict[str, str]:
        """What anyone in the study may know of this center: its versions and identity."""
        ...

    def open(self, invitation: Invitation) -> OpenStudy:
        """Let the study in, or raise NotNowError."""
        ...

    def check_agreed(self) -> None:
        """Raise NotNowError where the study that was let in has been declined since."""
        ...

    def leaving(self, rows: Sequence[Leaving]) -> None:
        """Write into the hospital's ledger what is about to leave."""
        ...

    def trouble(self, error: Exception) -> None:
        """Write down at home what went wrong; none of it leaves."""
        ...


@dataclass(eq=False)
class CenterEnd:
    """Answers the messages of one job."""

    name: str
    admission: Admission
    _study: OpenStudy | None = None
    _numbered: tuple[int, Center] | None = None  # with its patients numbered from there on
    _run: bytes | None = None
    _last: int = 0
    _settings: dict[bytes, Shared] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def handle(self, message: bytes) -> bytes:
        """One message, one answer, one after the other; never an exception."""
        with self._lock:
            return self._handled(message)

    def _handled(self, message: bytes) -> bytes:
        heading: Heading | None = None
        try:
            heading, body = read_request(message)
            self._check_order(heading)
            return answer(heading, self._answered(heading, body))
        except NotNowError as error:
            return refusal(heading, error.reason)
        except Exception as error:  # whatever it is, no text of it may leave
            with suppress(Exception):  # the disk may be full
                self.admission.trouble(error)
            return refusal(heading, reason_of(error))

    def _check_order(self, heading: Heading) -> None:
        """Each message of a run once, in order: a copy of an old one gets no answer."""
        if self._run is None:
            self._run = heading.run
        if heading.run != self._run or heading.number <= self._last:
            raise NotNowError(Refusal("order"))
        self._last = heading.number

    def _answered(self, heading: Heading, body: Tree) -> Tree:
        if heading.step == "ping":
            return None
        if heading.step == "hello":
            return dict(self.admission.introduce())
        if heading.step == "study":
            return self._opened(body)
        study = self._agreed()
        if heading.step == "ask":
            return self._asked(study, body)
        if study.masked is None:
            raise NotNowError(Refusal("order"))
        if heading.step == "masked":
            return self._masked(study, study.masked, body)
        if not isinstance(body, bytes):
            raise MessageError("Bytes are expected.")
        return study.masked.sums.handle(heading.step, body)

    def _opened(self, body: Tree) -> Tree:
        fields = table(body, "protocol", "version", "study", "centers", "identities")
        text, version = fields["study"], fields["version"]
        if fields["protocol"] != PROTOCOL:
            raise NotNowError(Refusal("version"))
        if not isinstance(text, str) or not isinstance(version, str):
            raise MessageError("The study is a text.")
        if self._study is None:
            invitation = Invitation(
                text, names(fields["centers"]), texts(fields["identities"]), version
            )
            self._study = self.admission.open(invitation)
        masked = self._study.masked
        hidden = masked is not None or self._study.noise_only
        return {
            "schema": self._study.schema,
            "mark": self._study.mark,
            "patients": None if hidden else self._study.center.cohort.patients,
        }

    def _agreed(self) -> OpenStudy:
        if self._study is None:
            raise NotNowError(Refusal("order"))
        self.admission.check_agreed()
        return self._study

    def _asked(self, study: OpenStudy, body: Tree) -> Tree:
        if study.masked is not None:
            # What is to leave under a mask does not leave without one.
            raise NotNowError(Refusal("order", ("secure sums",)))
        fields = table(body, "questions", "first", "centers")
        queries = self._questions(study, fields["questions"], names(fields["centers"]))
        center = self._numbered_from(study, fields["first"])
        replies = [Reply(center.answer(query), center.epsilon(query)) for query in queries]
        content = write_replies(queries, replies)
        self.admission.leaving(
            [
                Leaving(
                    query.name,
                    query.numbers_in(reply.answer),
                    _protection(query, masked=False),
                    reply.epsilon,
                )
                for query, reply in zip(queries, replies, strict=True)
            ]
        )
        return content

    def _numbered_from(self, study: OpenStudy, first: Tree) -> Center:
        """The center with its patients numbered from `first` on."""
        if first is None:
            return study.center
        if type(first) is not int or not 0 <= first < 2**53:
            raise MessageError("Patients are numbered from a whole number on.")
        if self._numbered is None or self._numbered[0] != first:
            cohort = study.center.cohort
            numbers = np.arange(first, first + cohort.patients)
            if np.array_equal(cohort.number, numbers):
                center = study.center  # with all that was prepared for it
            else:
                center = replace(study.center, cohort=replace(cohort, number=numbers))
            self._numbered = first, center
        return self._numbered[1]

    def _masked(self, study: OpenStudy, masked: MaskedCenter, body: Tree) -> Tree:
        fields = table(body, "questions", "round", "centers", "shares")
        centers = names(fields["centers"])
        queries = self._questions(study, fields["questions"], centers)
        number, shares = fields["round"], fields["shares"]
        if type(number) is not int:
            raise MessageError("The number of a round cannot be read.")
        if not isinstance(shares, bytes):
            raise MessageError("Shares come as bytes.")
        reply = masked.reply(queries, number, centers, shares)
        rows = zip(queries, reply.lengths, reply.epsilons, strict=True)
        self.admission.leaving(
            [
                Leaving(query.name, length, _protection(query, masked=True), epsilon)
                for query, length, epsilon in rows
            ]
        )
        return {
            "lengths": list(reply.lengths),
            "message": reply.message,
            "epsilons": list(reply.epsilons),
        }

    def _questions(
        self, study: OpenStudy, body: Tree, centers: Sequence[str]
    ) -> list[AbstractQuery[Any]]:
        """The questions of a round that goes to these centers, if all of it was agreed to."""
        if not study.enough(centers):
            raise NotNowError(Refusal("attendance"))
        columns = study.center.cohort.columns
        if not isinstance(body, bytes):
            raise MessageError("Questions come as bytes.")
        queries = decode_questions(from_bytes(body), self._settings, columns=columns)
        while len(self._settings) > _SETTINGS_KEPT:
            self._settings.pop(next(iter(self._settings)))
        strange = sorted({query.name for query in queries} - study.asked)
        if strange:
            raise NotNowError(Refusal("order", ("questions",)))
        if not all(study.allows(query, centers) for query in queries):
            raise NotNowError(Refusal("order", ("intervals and model",)))
        if study.noise_only and not all(
            isinstance(query, AbstractPrivateQuery) for query in queries
        ):
            raise NotNowError(Refusal("order", ("noise",)))
        return queries


def _protection(query: AbstractQuery[Any], *, masked: bool) -> str:
    noisy = isinstance(query, AbstractPrivateQuery)
    if masked:
        return "masks and noise" if noisy else "masks"
    return "noise" if noisy else "none"


_REASONS: tuple[tuple[type[Exception], Callable[[Exception], Refusal]], ...] = (
    (BudgetError, lambda error: Refusal("budget")),
    (BusyError, lambda error: Refusal("busy")),
    (ChangedError, lambda error: Refusal("changed")),
    (RefusedError, lambda error: Refusal("policy", rules_in(error))),
    (PolicyError, lambda error: Refusal("policy")),
    (SecureSumError, lambda error: Refusal("sum")),
    (CohortError, lambda error: Refusal("file")),
    (MessageError, lambda error: Refusal("message")),
)


def reason_of(error: Exception) -> Refusal:
    """What may be told of an error: its kind, and which rules of the policy it names."""
    for kind, refusal_for in _REASONS:
        if isinstance(error, kind):
            return refusal_for(error)
    return Refusal("fault")


def rules_in(error: Exception) -> tuple[str, ...]:
    """The policy's rules that the faults begin with, without what was counted."""
    begun = (_RULE.match(fault) for fault in getattr(error, "faults", ()))
    return tuple(dict.fromkeys(rule[1] for rule in begun if rule is not None))[:20]
