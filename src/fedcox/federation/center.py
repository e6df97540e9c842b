"""One hospital: its patients, and the only door answers leave by.

Between hospitals `engines/nvflare/center_end.py` then sends the bytes. In one process small
centers are summed over together, after each has admitted the question.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fedcox.errors import RefusedError
from fedcox.federation.query import AbstractPrivateQuery, AbstractQuery, Answer
from fedcox.survival.cohort import Cohort

if TYPE_CHECKING:
    from fedcox.federation.noised_replies import NoisedReplies
    from fedcox.federation.policy import Gate

_NOBODY: frozenset[str] = frozenset()


@dataclass(frozen=True, eq=False)
class Center:
    """Holds the patients and decides what leaves.

    `dropped` counts patients of the file that the study's rules left out, by reason, `filled`
    cells without a value that the mean of all centers stands for, by column. `gate` holds the
    hospital's own policy; without one nothing is refused, as where one analyst has all files.
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
        self.admit(query)
        if not isinstance(query, AbstractPrivateQuery) or self.noise is None:
            return query.answer(self.cohort)
        vector = self.noise.vector(query, self.cohort, masked=masked, among=among)
        noised: Answer = query.unpack(vector)
        return noised

    def epsilon(self, query: AbstractQuery[Answer]) -> float | None:
        """What the replies of a question under noise cost together, for the ledger."""
        if not isinstance(query, AbstractPrivateQuery) or self.noise is None:
            return None
        return self.noise.epsilon(query.release)

    def admit(self, query: AbstractQuery[Any]) -> None:
        """Refuse a question, or count it as answered."""
        noised = isinstance(query, AbstractPrivateQuery)
        if query.experimental and not self.allow_experiments:
            raise self.refusal(
                query,
                "Single patients can be read off the replies, so it is for experiments whose "
                "patients are no secret. Ask something else, or build the center with "
                "allow_experiments=True.",
            )
        if noised and self.noise is None:
            raise self.refusal(
                query,
                "Its reply would need noise, and the center was given no way to add it.",
            )
        if self.gate is not None:
            epsilon = 0.0
            if isinstance(query, AbstractPrivateQuery) and self.noise is not None:
                epsilon = self.noise.together_with(query.release)
            try:
                self.gate.admit(query.name, noised=noised, epsilon=epsilon)
            except RefusedError as error:
                raise self.refusal(query, *error.faults) from None

    def refusal(self, query: AbstractQuery[Any], *faults: str) -> RefusedError:
        """What is wrong with a question, by the center's name."""
        subject = f"Center '{self.name}' refuses the question '{query.name}'."
        return RefusedError(subject, faults)
