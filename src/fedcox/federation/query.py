"""What a hospital may be asked: a pure function of its cohort, whose answers combine.

A query's class is its declaration. From its fields follows how it travels; from the type and
the shapes of its answer, how answers travel, add and are masked; from its words, what the
ledger, the hospital's policy and whoever approves a study know of it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar, get_args

import numpy as np

from fedcox.federation.digest import digest
from fedcox.federation.ledger import BYTES_PER_NUMBER, Ledger
from fedcox.federation.sums import Layout, Shapes
from fedcox.privacy.noise import GaussianRelease, Randomness, chosen_by_chance
from fedcox.survival.cohort import Cohort, FloatArray, IntArray

if TYPE_CHECKING:
    from fedcox.federation.center import Center


class Adds(Protocol):
    """What the replies to one question are if their sum is one too."""

    def __add__(self, other: Any, /) -> Any: ...


Answer = TypeVar("Answer")
Summand = TypeVar("Summand", bound=Adds)

#: 2⁻³² ≈ 2e-10 on sums over scaled covariates, which may then reach 2e9 in size.
DEFAULT_BITS = 32


class Shared(ABC):  # noqa: B024  # what is shared has nothing else in common
    """What queries refer to: it goes to a center once, and by its name from then on."""

    #: Whether equal ones are one; else each has a name of its own.
    named_by_content: ClassVar[bool] = True


class Agreed(Shared):
    """What every center gets once, before the first question that refers to it."""

    @property
    @abstractmethod
    def numbers(self) -> int:
        """How many numbers describe it."""


class AbstractQuery(ABC, Generic[Answer]):
    """Computed where the patients are; combined where they are not."""

    #: What leaves a hospital, in words, by each name that the query may have.
    words: ClassVar[Mapping[str, str]] = {}
    #: Some of the patients whom it may be put to: "… of a batch" has the words of "…".
    parts: ClassVar[tuple[str, ...]] = ()
    #: Whether a hospital answers unless its policy says otherwise; without noise, of all
    #: patients only. Not where an answer has as many numbers as a network or its features,
    #: hundreds for every patient, or is one center's own model, or a single patient's time.
    by_default: ClassVar[bool] = False
    #: Of its names those that a policy must have all the same, as a network's are.
    only_if_named: ClassVar[frozenset[str]] = frozenset()
    #: Whether the answer is of single patients, and no sum over them.
    patient_level: ClassVar[bool] = False
    #: Whether the replies give patients away, so that a center answers in experiments only.
    experimental: ClassVar[bool] = False
    #: The type as which the answer travels, where that is not its own.
    sent_type: ClassVar[Any] = None

    @property
    def name(self) -> str:
        """The question in plain words, as it stands in the ledger: the one that has words."""
        (name,) = self.words
        return name

    @classmethod
    def names(cls) -> dict[str, str]:
        """Every name that it may have, with what leaves a hospital in words."""
        of_parts = {
            f"{name} of {part}": words
            for name, words in cls.words.items()
            for part in cls.parts
        }
        return {**cls.words, **of_parts}

    @property
    @abstractmethod
    def numbers(self) -> int:
        """How many numbers go to each center to ask this."""

    @property
    def setting(self) -> Agreed | None:
        """What the question refers to and every center gets once; None if there is nothing."""
        return None

    @property
    def point(self) -> tuple[FloatArray, FloatArray] | None:
        """The (α, β) it is asked at, on the common scale; None if it has no parameters."""
        return None

    @cached_property
    def digest(self) -> bytes:
        """A fingerprint of the whole question, what it refers to included."""
        return digest(self)

    @property
    def batched(self) -> bool:
        """Whether it is about some of the patients only."""
        return False

    @property
    def continues(self) -> Shared | None:
        """What earlier questions must have brought, for this one to be answered."""
        return None

    def faults(self, columns: int | None) -> Iterator[str]:
        """What does not agree within the question, when patients have so many columns.

        They are None where that is not known. Fields are of their types and finite already.
        """
        yield from ()

    def shapes(self, columns: int | None) -> Shapes:
        """The shapes of the answer's arrays, when patients have so many columns."""
        return {}

    def answer_faults(self, answer: Answer) -> Iterator[str]:
        """What of an answer does not agree with the question; no number of it is told."""
        yield from ()

    @cached_property
    def layout(self) -> Layout:
        """How the answer's numbers lie in a vector."""
        return Layout(answer_type(type(self)), self.shapes(None))

    @abstractmethod
    def answer(self, cohort: Cohort) -> Answer:
        """What one center replies. Pure: no state, no files, no network."""

    @abstractmethod
    def combine(self, left: Answer, right: Answer) -> Answer:
        """Merge two replies. Associative and commutative, up to rounding."""

    def numbers_in(self, answer: Answer) -> int:
        """How many numbers one reply holds; symmetric blocks count once."""
        return self.layout.numbers(answer)

    def bytes_in(self, answer: Answer) -> int:
        """How many bytes one reply is sent as."""
        return BYTES_PER_NUMBER * self.numbers_in(answer)

    def sent(self, answer: Answer) -> Any:
        """The answer as it travels; see `sent_type`."""
        return answer

    def received(self, sent: Any) -> Answer:
        """The answer that travelled so."""
        answer: Answer = sent
        return answer


@cache
def answer_type(kind: type[AbstractQuery[Any]]) -> Any:
    """The type of a query's answer: X of a class that is an `AbstractQuery[X]`."""
    for base in kind.__mro__:
        for declared in base.__dict__.get("__orig_bases__", ()):
            for argument in get_args(declared):
                if not isinstance(argument, TypeVar):
                    return argument
    raise TypeError(f"{kind.__name__} does not say what its answer is: AbstractQuery[…].")


class AbstractAdditiveQuery(AbstractQuery[Summand]):
    """A query whose replies are vectors that add, so that they can be summed under masks."""

    #: How many numbers at the front keep the precision of a double at any size: they are masked
    #: in four parts. None stands for all numbers.
    fine: ClassVar[int | None] = 0

    def pack(self, answer: Summand) -> FloatArray:
        """One reply as a vector, of one length whatever the center."""
        return self.layout.pack(answer)

    def unpack(self, vector: FloatArray) -> Summand:
        """The reply, or the sum of replies, that this vector stands for."""
        answer: Summand = self.layout.unpack(vector)
        return answer

    @property
    def bits(self) -> int:
        """Binary places with which the vector's numbers are masked."""
        return DEFAULT_BITS

    def combine(self, left: Summand, right: Summand) -> Summand:
        total: Summand = left + right
        return total


class AbstractSumQuery(AbstractAdditiveQuery[Summand]):
    """A query whose replies are sums over patients, of one shape whatever the center.

    So the combined reply of several cohorts is the reply of their union, and an engine that
    holds them all may compute it at once.
    """


class AbstractMaximumQuery(AbstractQuery[int]):
    """How far on a scale of cells, counted from one, does a cohort reach? Zero: nowhere.

    Under masks every center fills the cells it reaches with random numbers, so that only the
    largest reach of all is seen.
    """

    @property
    @abstractmethod
    def cells(self) -> int:
        """How many cells the scale has."""

    def combine(self, left: int, right: int) -> int:
        return max(left, right)


class AbstractPrivateQuery(AbstractAdditiveQuery[Summand]):
    """A query whose reply leaves a center with noise for differential privacy.

    The center draws the patients in secret, by the release's sampling rate.
    """

    release: GaussianRelease

    @property
    def bits(self) -> int:
        return self.release.bits

    @abstractmethod
    def summed(self, cohort: Cohort, patients: IntArray) -> Summand:
        """The sum over these rows of the cohort, each patient bounded; without noise."""

    def answer(self, cohort: Cohort) -> Summand:
        """Over everybody and without noise: what the noised replies are right on average."""
        return self.summed(cohort, np.arange(cohort.patients))

    def private_answer(self, cohort: Cohort, randomness: Randomness) -> Summand:
        """The reply before the noise: of patients sampled in secret, each bounded."""
        drawn = chosen_by_chance(cohort.patients, self.release.sampling_rate, randomness)
        return self.summed(cohort, np.flatnonzero(drawn))


class AbstractFederation(ABC):
    """What federations share: a question alone is a round of one."""

    in_one_process = False
    centers: Sequence[Center] = ()
    cohorts: Sequence[Cohort] = ()

    def ask(self, query: AbstractQuery[Answer]) -> Answer:
        """One question, one round: the combined reply."""
        answer: Answer = self.ask_together([query])[0]
        return answer

    @abstractmethod
    def ask_together(
        self,
        queries: Sequence[AbstractQuery[Any]],
        each: Sequence[AbstractQuery[Any]] = (),
    ) -> list[Any]:
        """Questions that do not depend on each other share one round."""


class Federation(Protocol):
    """Anything that can put questions to every center and combine the replies."""

    @property
    def names(self) -> tuple[str, ...]:
        """The centers, in the order in which their replies are combined."""
        ...

    @property
    def in_one_process(self) -> bool:
        """Whether one analyst holds all patients, so that there is nothing to hide."""
        ...

    @property
    def shows_centers(self) -> bool:
        """Whether single centers' replies can be seen, or their sum alone."""
        ...

    @property
    def centers(self) -> Sequence[Center]:
        """The centers as objects of this process; none where they are somewhere else."""
        ...

    @property
    def cohorts(self) -> Sequence[Cohort]:
        """All patients, where they are in this process; none where they are somewhere else."""
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
