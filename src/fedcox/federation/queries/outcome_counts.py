"""How many patients are there, and how many have the event? The size of a study."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedcox.federation.query import AbstractSumQuery
from fedcox.federation.sums import FieldSum
from fedcox.survival.bounds import MOST_PATIENTS
from fedcox.survival.cohort import Cohort


@dataclass(frozen=True)
class Outcomes(FieldSum):
    """Patients, and those of them with the event."""

    patients: int
    events: int

    def faults(self, columns: int | None) -> Iterator[str]:
        """No more events than patients."""
        if not 0 <= self.events <= self.patients <= MOST_PATIENTS:
            yield "patients and events are no counts of the same patients"


@dataclass(frozen=True)
class OutcomeCounts(AbstractSumQuery[Outcomes]):
    """The size of a center, in patients and in events."""

    words: ClassVar = {"patients and events": "how many patients and how many events"}
    by_default = True

    @property
    def numbers(self) -> int:
        return 0

    def answer(self, cohort: Cohort) -> Outcomes:
        return Outcomes(cohort.patients, int(np.count_nonzero(cohort.event)))
