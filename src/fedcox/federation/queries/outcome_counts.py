"""How many patients are there, and how many have the event? The size of a study."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedcox.federation.query import AbstractSumQuery
from fedcox.survival.cohort import Cohort, FloatArray


@dataclass(frozen=True)
class Outcomes:
    """Patients, and those of them with the event."""

    patients: int
    events: int

    def __add__(self, other: Outcomes) -> Outcomes:
        return Outcomes(self.patients + other.patients, self.events + other.events)


@dataclass(frozen=True)
class OutcomeCounts(AbstractSumQuery[Outcomes]):
    """The size of a center, in patients and in events."""

    @property
    def name(self) -> str:
        return "patients and events"

    @property
    def numbers(self) -> int:
        return 0

    def answer(self, cohort: Cohort) -> Outcomes:
        return Outcomes(cohort.patients, int(np.count_nonzero(cohort.event)))

    def pack(self, answer: Outcomes) -> FloatArray:
        return np.array([answer.patients, answer.events], dtype=np.float64)

    def unpack(self, vector: FloatArray) -> Outcomes:
        return Outcomes(round(vector[0]), round(vector[1]))
