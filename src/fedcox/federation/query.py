"""What a hospital may be asked: a pure function of its cohort, whose answers combine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from fedcox.federation.ledger import Ledger
from fedcox.survival.cohort import Cohort

Answer = TypeVar("Answer")


class Agreed(Protocol):
    """What every center gets once, before the first question that refers to it."""

    @property
    def numbers(self) -> int:
        """How many numbers describe it."""
        ...


class AbstractQuery(ABC, Generic[Answer]):
    """Computed where the patients are; combined where they are not."""

    #: Whether the replies give patients away, so that a center answers in experiments only.
    experimental: ClassVar[bool] = False

    @property
    @abstractmethod
    def name(self) -> str:
        """The question in plain words, as it stands in the ledger."""

    @property
    @abstractmethod
    def numbers(self) -> int:
        """How many numbers go to each center to ask this."""

    @property
    def setting(self) -> Agreed | None:
        """What the question refers to and every center gets once; None if there is nothing."""
        return None

    @abstractmethod
    def answer(self, cohort: Cohort) -> Answer:
        """What one center replies. Pure: no state, no files, no network."""

    @abstractmethod
    def combine(self, left: Answer, right: Answer) -> Answer:
        """Merge two replies. Associative and commutative, up to rounding."""

    @abstractmethod
    def numbers_in(self, answer: Answer) -> int:
        """How many numbers one reply holds; symmetric blocks count once."""


class AbstractSumQuery(AbstractQuery[Answer]):
    """A query whose replies are sums over patients, of one shape whatever the center.

    So the combined reply of several cohorts is the reply of their union, and an engine that
    holds them all may compute it at once.
    """


class Federation(Protocol):
    """Anything that can put questions to every center and combine the replies."""

    @property
    def names(self) -> tuple[str, ...]:
        """The centers, in the order in which their replies are combined."""
        ...

    @property
    def ledger(self) -> Ledger:
        """What was asked and what left each center, so far."""
        ...

    def ask(self, query: AbstractQuery[Answer]) -> Answer:
        """One question, one round: the combined reply."""
        ...

    def ask_together(
        self,
        queries: Sequence[AbstractQuery[Any]],
        each: Sequence[AbstractQuery[Any]] = (),
    ) -> list[Any]:
        """Questions that do not depend on each other share one round.

        First the combined replies to `queries`; then, for every query in `each`, the centers'
        own replies by name.
        """
        ...
