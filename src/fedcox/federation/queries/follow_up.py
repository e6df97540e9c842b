"""How long is the longest follow-up? Asked only when the study names no horizon.

The reply is one patient's time. A horizon in the study file avoids the question.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from fedcox.federation.query import AbstractQuery
from fedcox.survival.cohort import Cohort


@dataclass(frozen=True)
class LongestFollowUp(AbstractQuery[float]):
    """The longest time of any patient, zero for a center without patients."""

    words: ClassVar = {"longest follow-up": "the time of one patient in each center"}
    by_default = True
    patient_level = True

    @property
    def numbers(self) -> int:
        return 0

    def answer_faults(self, answer: float) -> Iterator[str]:
        if answer < 0:
            yield "a time is not below zero"

    def answer(self, cohort: Cohort) -> float:
        return float(cohort.time.max(initial=0.0))

    def combine(self, left: float, right: float) -> float:
        return max(left, right)
