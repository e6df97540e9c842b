"""One hospital: its patients, and the only door answers leave by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fedcox.federation.query import AbstractQuery, Answer
from fedcox.survival.cohort import Cohort


@dataclass(frozen=True, eq=False)
class Center:
    """Holds the patients and decides what leaves.

    `dropped` counts patients of the file that the study's rules left out, by reason.
    """

    name: str
    cohort: Cohort
    dropped: Mapping[str, int] = field(default_factory=dict)

    def answer(self, query: AbstractQuery[Answer]) -> Answer:
        """The only way out of a hospital."""
        return query.answer(self.cohort)
