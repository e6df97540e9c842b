"""Which is the last interval that anyone's follow-up reaches? Found without seeing anyone's.

Asked where only sums over centers are seen and the study names no horizon. Under masks nobody
learns which center reaches it, or how many do.
"""

from __future__ import annotations

from dataclasses import dataclass

from fedcox.federation.query import AbstractMaximumQuery
from fedcox.survival.cohort import Cohort
from fedcox.survival.time_grid import AnyGrid


@dataclass(frozen=True, eq=False)
class LastInterval(AbstractMaximumQuery):
    """On a public grid that is long enough; later times count as its last interval."""

    grid: AnyGrid

    @property
    def name(self) -> str:
        return "last interval"

    @property
    def numbers(self) -> int:
        return self.grid.numbers

    @property
    def cells(self) -> int:
        return self.grid.intervals

    def answer(self, cohort: Cohort) -> int:
        risk = self.grid.at_risk(cohort.time, cohort.event, "include")
        return int(risk.intervals.max(initial=0))
