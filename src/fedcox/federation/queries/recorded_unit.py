"""In which unit were times recorded? An event "on day 4" happened somewhere in that day."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedcox.federation.query import AbstractQuery, AbstractSumQuery
from fedcox.privacy.exposure import Exposure
from fedcox.survival.cohort import Cohort, FloatArray
from fedcox.survival.event_pieces import common_unit, recorded_unit


@dataclass(frozen=True)
class CommonUnit:
    """The largest unit of which every time is a whole number, and the longest of these times.

    The unit is `EXACT` where there is none, and zero where there are no times. By the longest
    time it is judged which units are too fine to be one.
    """

    unit: float
    longest: float

    def __add__(self, other: CommonUnit) -> CommonUnit:
        longest = max(self.longest, other.longest)
        return CommonUnit(common_unit(self.unit, other.unit, longest), longest)


@dataclass(frozen=True)
class RecordedUnit(AbstractQuery[CommonUnit]):
    """Of one patient it is that patient's time, so it is asked only where nothing is hidden."""

    @property
    def name(self) -> str:
        return "recorded unit"

    @property
    def numbers(self) -> int:
        return 0

    def exposure(self, cohort: Cohort) -> Exposure:
        events = int(np.count_nonzero(cohort.event))
        return Exposure(cohort.patients, events, patient_level=True)

    def answer(self, cohort: Cohort) -> CommonUnit:
        return CommonUnit(recorded_unit(cohort.time), float(cohort.time.max(initial=0.0)))

    def combine(self, left: CommonUnit, right: CommonUnit) -> CommonUnit:
        return left + right

    def numbers_in(self, answer: CommonUnit) -> int:
        return 2


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
    """Events after time zero, and at how many of these times whole numbers of each unit end.

    Times of censoring do not count: many patients may be censored on one day, the last of a
    study, which says nothing of the unit.
    """

    events: int
    whole: FloatArray  # (units,)

    def __add__(self, other: WholeTimes) -> WholeTimes:
        return WholeTimes(self.events + other.events, self.whole + other.whole)

    @property
    def unit(self) -> float | None:
        """The largest unit that nine of ten times are whole numbers of; None without one."""
        enough = np.flatnonzero(self.whole >= _MOST * max(self.events, 1))
        return UNITS[int(enough[0])] if enough.size else None


@dataclass(frozen=True)
class FractionalTimes(AbstractSumQuery[WholeTimes]):
    """How many event times are whole numbers of days, weeks, tenths, …, as a sum."""

    @property
    def name(self) -> str:
        return "fractional times"

    @property
    def numbers(self) -> int:
        return 0

    def exposure(self, cohort: Cohort) -> Exposure:
        return Exposure(cohort.patients, int(np.count_nonzero(cohort.event)))

    def answer(self, cohort: Cohort) -> WholeTimes:
        times = cohort.time[cohort.event & (cohort.time > 0)]
        whole = [self._whole(times / unit) for unit in UNITS]
        return WholeTimes(int(times.size), np.array(whole, dtype=np.float64))

    def _whole(self, ratio: FloatArray) -> int:
        whole = np.rint(ratio)
        return int(np.count_nonzero((whole > 0) & (np.abs(ratio - whole) <= _WHOLE)))

    def pack(self, answer: WholeTimes) -> FloatArray:
        return np.append(float(answer.events), answer.whole)

    def unpack(self, vector: FloatArray) -> WholeTimes:
        return WholeTimes(round(float(vector[0])), vector[1:])
