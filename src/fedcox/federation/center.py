"""One hospital: its patients, and the only door answers leave by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fedcox.errors import RefusedError
from fedcox.federation.digest import digest
from fedcox.federation.query import (
    AbstractPrivateQuery,
    AbstractQuery,
    AbstractSumQuery,
    Answer,
)
from fedcox.privacy.exposure import Request
from fedcox.survival.cohort import Cohort

if TYPE_CHECKING:
    from fedcox.federation.noised_replies import NoisedReplies
    from fedcox.privacy.gate import Gate

_NOBODY: frozenset[str] = frozenset()
#: What a question brings along to be checked by; the reply does not depend on it.
_EVIDENCE = ("evidence",)


@dataclass(frozen=True, eq=False)
class Center:
    """Holds the patients and decides what leaves.

    `dropped` counts patients of the file that the study's rules left out, by reason, `filled`
    cells without a value that the mean of all centers stands for, by column. `gate` holds the
    hospital's own limits; without one there are none, as where one analyst has all files.
    `noise` is how replies leave under noise; without it those questions are refused. Where
    `allow_experiments` is set the patients are no secret, as in a simulation, and questions
    whose replies give patients away are answered too.
    """

    name: str
    cohort: Cohort
    dropped: Mapping[str, int] = field(default_factory=dict)
    filled: Mapping[str, int] = field(default_factory=dict)
    allow_experiments: bool = False
    gate: Gate | None = None
    noise: NoisedReplies | None = None

    def answer(
        self,
        query: AbstractQuery[Answer],
        *,
        masked: bool = False,
        among: frozenset[str] = _NOBODY,
    ) -> Answer:
        """The only way out of a hospital.

        `masked` says that what is returned goes under a mask before it leaves, `among` which
        centers.
        """
        if isinstance(query, AbstractPrivateQuery):
            noise = self._noise(query)
            self.admit(query, masked=masked, among=among)
            vector = noise.vector(query, self.cohort, masked=masked, among=among)
            noised: Answer = query.unpack(vector)
            return noised
        self.admit(query, masked=masked, among=among)
        return query.answer(self.cohort)

    def epsilon(self, query: AbstractQuery[Answer]) -> float | None:
        """What the replies of a question under noise cost together, for the ledger."""
        if not isinstance(query, AbstractPrivateQuery):
            return None
        return self._noise(query).epsilon(query.release)

    def _noise(self, query: AbstractPrivateQuery[Any]) -> NoisedReplies:
        if self.noise is None:
            raise RefusedError(
                f"Center '{self.name}' refuses the question '{query.name}'.",
                ["Its reply would need noise, and the center was given no way to add it."],
            )
        return self.noise

    def admit(
        self,
        query: AbstractQuery[Answer],
        *,
        masked: bool = False,
        among: frozenset[str] = _NOBODY,
    ) -> None:
        """Refuse a question, or count it as answered."""
        if query.experimental and not self.allow_experiments:
            raise RefusedError(
                f"Center '{self.name}' refuses the question '{query.name}'.",
                [
                    "Single patients can be read off the replies, so it is for experiments "
                    "whose patients are no secret. Ask something else, or build the center "
                    "with allow_experiments=True."
                ],
            )
        if self.gate is None:
            return
        if isinstance(query, AbstractPrivateQuery):
            self._check_noise(query, self.gate)
        alpha, beta = query.point or (None, None)
        request = Request(
            query.name,
            query.exposure(self.cohort),
            alpha,
            beta,
            masked=masked,
            private=isinstance(query, AbstractPrivateQuery),
        )
        try:
            asked = self._fingerprint(query, masked, among) if self.gate.remembers else None
            self.gate.admit(request, query.known(self.cohort), asked)
        except RefusedError as error:
            told = f"Center '{self.name}' refuses the question '{query.name}'."
            raise type(error)(told, error.faults) from None

    def _fingerprint(
        self, query: AbstractQuery[Answer], masked: bool, among: frozenset[str]
    ) -> bytes:
        """Of all that the reply depends on beside the patients, and of who is in its sum."""
        # Batches are drawn by the patients' numbers in the study, which another federation may
        # give anew; what is summed over everybody does not depend on them.
        everybody = isinstance(query, AbstractSumQuery) and not query.batched
        numbers = None if everybody else self.cohort.number
        return digest((digest(query, without=_EVIDENCE), masked, sorted(among), numbers))

    def _check_noise(self, query: AbstractPrivateQuery[Any], gate: Gate) -> None:
        """Noise covers what limits would refuse, so there must be enough of it."""
        noise, limits = self._noise(query), gate.policy.differential_privacy
        spent = noise.epsilon(query.release)
        if limits.epsilon is not None and not spent <= limits.epsilon:
            gate.refuse()
            raise RefusedError(
                f"Center '{self.name}' refuses the question '{query.name}'.",
                [
                    f"[differential_privacy] epsilon: replies like this cost {spent:g}; all "
                    f"studies together may spend {limits.epsilon:g}. More noise is needed."
                ],
            )

    def group(self, query: AbstractQuery[Answer], *, masked: bool = False) -> int | None:
        """The fewest patients that a part of the reply describes, for the ledger.

        None for a batch: it changes with every step, and counting takes as long as answering.
        None under noise: an exact count beside it would break its promise.
        """
        if query.batched or isinstance(query, AbstractPrivateQuery):
            return None
        exposure = query.exposure(self.cohort)
        if exposure.patient_level:
            return 1 if exposure.patients else 0
        group = exposure.pooled_group if masked else exposure.smallest_group
        return exposure.patients if group is None and not masked else group
