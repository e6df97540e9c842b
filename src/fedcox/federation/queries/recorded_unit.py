"""In which unit were times recorded? An event "on day 4" happened somewhere in that day."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedcox.federation.query import AbstractQuery, AbstractSumQuery
from fedcox.privacy.exposure import Exposure
from fedcox.survival.cohort import Cohort, FloatArray
from fedcox.survival.event_pieces import common_unit, recorded_unit


@dataclass(frozen=True)
class RecordedUnit(AbstractQuery[float]):
    """The largest unit of which every time is a whole number; `EXACT` where there is none.

    Zero of a center without patients. Of one patient it is that patient's time, so it is asked
    only where nothing is hidden.
    """

    @property
    def name(self) -> str:
        return "recorded unit"

    @property
    def numbers(self) -> int:
        return 0

    def exposure(self, cohort: Cohort) -> Exposure:
        events = int(np.count_nonzero(cohort.event))
        return Exposure(cohort.patients, events, patient_level=True)

    def answer(self, cohort: Cohort) -> float:
        return recorded_unit(cohort.time)

    def combine(self, left: float, right: float) -> float:
        return common_unit(left, right)

    def numbers_in(self, answer: float) -> int:
        return 1


@dataclass(frozen=True)
class FractionalTimes(AbstractSumQuery[int]):
    """How many centers have a time that is not a whole number: one says no more than that."""

    @property
    def name(self) -> str:
        return "fractional times"

    @property
    def numbers(self) -> int:
        return 0

    def exposure(self, cohort: Cohort) -> Exposure:
        return Exposure(cohort.patients, int(np.count_nonzero(cohort.event)))

    def answer(self, cohort: Cohort) -> int:
        return int((cohort.time != np.rint(cohort.time)).any())

    def pack(self, answer: int) -> FloatArray:
        return np.array([answer], dtype=np.float64)

    def unpack(self, vector: FloatArray) -> int:
        return round(float(vector[0]))
