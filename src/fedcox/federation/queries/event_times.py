"""At which distinct times do events happen? The grid of `times = "events"`.

The reply is patient-level: every event time of the center. It serves simulation and method
research; between real hospitals a grid of intervals is the study to run.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedcox.federation.query import AbstractQuery
from fedcox.survival.cohort import Cohort, FloatArray


@dataclass(frozen=True)
class EventTimes(AbstractQuery[FloatArray]):
    """Distinct event times up to `horizon`, increasing."""

    horizon: float = np.inf

    @property
    def name(self) -> str:
        return "distinct event times"

    @property
    def numbers(self) -> int:
        return 1

    def answer(self, cohort: Cohort) -> FloatArray:
        times = np.unique(cohort.time[cohort.event])
        # An event at time zero is placed in the first interval; zero itself is no instant.
        return times[(times > 0) & (times <= self.horizon)]

    def combine(self, left: FloatArray, right: FloatArray) -> FloatArray:
        return np.union1d(left, right)

    def numbers_in(self, answer: FloatArray) -> int:
        return int(answer.size)
