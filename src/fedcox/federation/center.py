"""One hospital: its patients, and the only door answers leave by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fedcox.errors import RefusedError
from fedcox.federation.query import AbstractQuery, Answer
from fedcox.survival.cohort import Cohort


@dataclass(frozen=True, eq=False)
class Center:
    """Holds the patients and decides what leaves.

    `dropped` counts patients of the file that the study's rules left out, by reason. Where
    `allow_experiments` is set the patients are no secret, as in a simulation, and questions
    whose replies give patients away are answered too.
    """

    name: str
    cohort: Cohort
    dropped: Mapping[str, int] = field(default_factory=dict)
    allow_experiments: bool = False

    def answer(self, query: AbstractQuery[Answer]) -> Answer:
        """The only way out of a hospital."""
        if query.experimental and not self.allow_experiments:
            raise RefusedError(
                f"Center '{self.name}' refuses the question '{query.name}'.",
                [
                    "Single patients can be read off the replies, so it is for experiments "
                    "whose patients are no secret. Ask something else, or build the center "
                    "with allow_experiments=True."
                ],
            )
        return query.answer(self.cohort)
