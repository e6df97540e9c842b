"""At which distinct times do events happen? The grid of `times = "events"`.

The reply is patient-level: every event time of the center. It serves simulation and method
research; between real hospitals a grid of intervals is the study to run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedcox.federation.fields import Unbounded
from fedcox.federation.query import AbstractQuery
from fedcox.federation.sums import Shapes
from fedcox.survival.bounds import positive
from fedcox.survival.cohort import Cohort, FloatArray


@dataclass(frozen=True)
class EventTimes(AbstractQuery[FloatArray]):
    """Distinct event times up to `horizon`, increasing."""

    words: ClassVar = {"distinct event times": "the event times of single patients"}
    patient_level = True

    horizon: Unbounded = np.inf

    @property
    def numbers(self) -> int:
        return 1

    def faults(self, columns: int | None) -> Iterator[str]:
        yield from positive("horizon", self.horizon)

    def shapes(self, columns: int | None) -> Shapes:
        return {"": (None,)}

    def answer_faults(self, answer: FloatArray) -> Iterator[str]:
        within = (answer > 0) & (answer <= self.horizon)
        if not within.all() or (np.diff(answer) <= 0).any():
            yield "the times must increase, from above zero to the horizon"

    def answer(self, cohort: Cohort) -> FloatArray:
        times = np.unique(cohort.time[cohort.event])
        # An event at time zero is placed in the first interval; zero itself is no instant.
        return times[(times > 0) & (times <= self.horizon)]

    def combine(self, left: FloatArray, right: FloatArray) -> FloatArray:
        return np.union1d(left, right)
