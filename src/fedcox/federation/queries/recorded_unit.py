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


#: Units that times are recorded in, the largest first: days, weeks or months in another unit,
#: and decimals.
UNITS = (
    *(365.25, 365.0, 30.4375, 30.0, 7.0, 1.0),
    *(1 / 7, 0.1, 1 / 12, 1 / 24, 7 / 365.25, 1 / 30.4375, 1 / 52, 0.01),
    *(1 / 365, 1 / 365.25, 0.001),
)
#: So large a part of the times, for a unit: a few may be typed in another way.
_MOST = 0.9
#: How far a time may lie from a whole number of units, in units.
_WHOLE = 1e-6


@dataclass(frozen=True, eq=False)
class WholeTimes:
    """Patients with a time above zero, and how many times are whole numbers of each unit."""

    patients: int
    whole: FloatArray  # (units,)

    def __add__(self, other: WholeTimes) -> WholeTimes:
        return WholeTimes(self.patients + other.patients, self.whole + other.whole)

    @property
    def unit(self) -> float | None:
        """The largest unit that nine of ten times are whole numbers of; None without one."""
        enough = np.flatnonzero(self.whole >= _MOST * max(self.patients, 1))
        return UNITS[int(enough[0])] if enough.size else None


@dataclass(frozen=True)
class FractionalTimes(AbstractSumQuery[WholeTimes]):
    """How many times are whole numbers of days, weeks, tenths, …: so few are told by a sum."""

    @property
    def name(self) -> str:
        return "fractional times"

    @property
    def numbers(self) -> int:
        return 0

    def exposure(self, cohort: Cohort) -> Exposure:
        return Exposure(cohort.patients, int(np.count_nonzero(cohort.event)))

    def answer(self, cohort: Cohort) -> WholeTimes:
        times = cohort.time[cohort.time > 0]
        whole = [self._whole(times / unit) for unit in UNITS]
        return WholeTimes(int(times.size), np.array(whole, dtype=np.float64))

    def _whole(self, ratio: FloatArray) -> int:
        return int(np.count_nonzero(np.abs(ratio - np.rint(ratio)) <= _WHOLE))

    def pack(self, answer: WholeTimes) -> FloatArray:
        return np.append(float(answer.patients), answer.whole)

    def unpack(self, vector: FloatArray) -> WholeTimes:
        return WholeTimes(round(float(vector[0])), vector[1:])
