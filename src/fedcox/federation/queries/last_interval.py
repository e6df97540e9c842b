"""Which is the last interval that anyone's follow-up reaches? Found without seeing anyone's.

Asked where only sums over centers are seen and the study names no horizon. Under masks nobody
learns which center reaches it, or how many do.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from fedcox.federation.query import AbstractMaximumQuery
from fedcox.survival.cohort import Cohort
from fedcox.survival.time_grid import AnyGrid


@dataclass(frozen=True, eq=False)
class LastInterval(AbstractMaximumQuery):
    """On a public grid that is long enough; later times count as its last interval."""

    words: ClassVar = {
        "last interval": "how far follow-up reaches, as random marks under masks: only the "
        "largest reach of all is seen"
    }
    by_default = True

    grid: AnyGrid

    @property
    def numbers(self) -> int:
        return self.grid.numbers

    @property
    def cells(self) -> int:
        return self.grid.intervals

    def answer_faults(self, answer: int) -> Iterator[str]:
        if not 0 <= answer <= self.cells:
            yield "there is no such interval"

    def answer(self, cohort: Cohort) -> int:
        risk = self.grid.at_risk(cohort.time, cohort.event, "include")
        return int(risk.intervals.max(initial=0))
