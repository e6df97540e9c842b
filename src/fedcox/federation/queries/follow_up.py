"""How long is the longest follow-up? Asked only when the study names no horizon.

The reply is one patient's time. A horizon in the study file avoids the question.
"""

from __future__ import annotations

from dataclasses import dataclass

from fedcox.federation.query import AbstractQuery
from fedcox.survival.cohort import Cohort


@dataclass(frozen=True)
class LongestFollowUp(AbstractQuery[float]):
    """The longest time of any patient, zero for a center without patients."""

    @property
    def name(self) -> str:
        return "longest follow-up"

    @property
    def numbers(self) -> int:
        return 0

    def answer(self, cohort: Cohort) -> float:
        return float(cohort.time.max(initial=0.0))

    def combine(self, left: float, right: float) -> float:
        return max(left, right)

    def numbers_in(self, answer: float) -> int:
        return 1
