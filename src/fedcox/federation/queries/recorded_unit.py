"""In which unit were times recorded? An event "on day 4" happened somewhere in that day."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedcox.federation.query import AbstractQuery, AbstractSumQuery
from fedcox.federation.sums import FieldSum, Shapes
from fedcox.survival.bounds import MOST_PATIENTS, are_counts
from fedcox.survival.cohort import Cohort, FloatArray, IntArray
from fedcox.survival.event_pieces import EXACT, common_unit, recorded_unit
from fedcox.survival.time_grid import are_whole


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

    words: ClassVar = {"recorded unit": "the largest unit of which all times are whole numbers"}
    patient_level = True

    @property
    def numbers(self) -> int:
        return 0

    def answer_faults(self, answer: CommonUnit) -> Iterator[str]:
        if (answer.unit < 0 and answer.unit != EXACT) or answer.longest < 0:
            yield "a unit or a time is not below zero"

    def answer(self, cohort: Cohort) -> CommonUnit:
        return CommonUnit(recorded_unit(cohort.time), float(cohort.time.max(initial=0.0)))

    def combine(self, left: CommonUnit, right: CommonUnit) -> CommonUnit:
        return left + right


#: Units that times are usually recorded in: days, weeks, months or years in one another, and
#: decimals.
_USUAL = (
    *(365.25, 365.0, 30.4375, 30.0, 7.0, 1.0),
    *(1 / 7, 0.1, 1 / 12, 1 / 24, 7 / 365.25, 1 / 30.4375, 1 / 52, 0.01),
    *(1 / 365, 1 / 365.25, 0.001),
)
#: Visits come every so many days, weeks, months, or parts of a year: multiples of a unit.
_VISITS = {
    1.0: range(1, 367),
    1 / 12: range(1, 12),
    0.1: range(1, 10),
    7 / 365.25: range(1, 53),
    0.01: (1, 2, 5, 25),
}
#: Every unit that is looked for with what it is so many of, the largest first. A unit that can
#: be had by itself, such as a week, is usual whatever it is a multiple of.
_MADE = {base * many: (base, many) for base, more in _VISITS.items() for many in more}
_MADE |= {unit: (unit, 1) for unit in _USUAL if unit not in _MADE}
UNITS = tuple(sorted(_MADE, reverse=True))
#: Many events on one date are not yet visits: there are finer units than these.
_MULTIPLES = frozenset(
    {unit for unit, (_, many) in _MADE.items() if many > 1} | {365.25, 365.0, 30.4375}
)
#: Of a unit about every second event is on an even multiple; at least so many, and not more
#: than all but so many, in parts of them.
_EVEN = 0.05
#: So large a part of the times, for a unit: a few may be typed in another way.
_MOST = 0.9
#: Of fewer events, as large a part may be multiples of an unusual unit by chance.
_ENOUGH_EVENTS = 30


@dataclass(frozen=True, eq=False)
class WholeTimes(FieldSum):
    """Events after time zero, and at how many of these times whole numbers of each unit end.

    Times of censoring do not count: many patients may be censored on one day, the last of a
    study, which says nothing of the unit.
    """

    events: int
    whole: FloatArray  # (units,)
    even: FloatArray  # (units,) those of them at even multiples

    def faults(self, columns: int | None) -> Iterator[str]:
        """No more whole times than times."""
        sane = 0 <= self.events <= MOST_PATIENTS and self.whole.shape == self.even.shape
        whole = sane and are_counts(self.whole, self.events)
        if not whole or not are_counts(self.even, self.whole):
            yield "events, whole and even are no counts of the same times"

    @property
    def unit(self) -> float | None:
        """The largest unit that nine of ten times are whole numbers of; None without one."""
        enough = self.whole >= _MOST * max(self.events, 1)
        spread = np.minimum(self.even, self.whole - self.even) >= _EVEN * self.whole
        return next(
            (
                unit
                for unit, fits, both in zip(UNITS, enough, spread, strict=True)
                if fits
                and (both or unit not in _MULTIPLES)
                and (unit in _USUAL or self.events >= _ENOUGH_EVENTS)
            ),
            None,
        )


@dataclass(frozen=True)
class FractionalTimes(AbstractSumQuery[WholeTimes]):
    """How many event times are whole numbers of days, weeks, tenths, …, as a sum."""

    words: ClassVar = {
        "fractional times": "how many event times are whole numbers of days, weeks, tenths, …"
    }
    by_default = True

    @property
    def numbers(self) -> int:
        return 0

    def shapes(self, columns: int | None) -> Shapes:
        return dict.fromkeys(("whole", "even"), (len(UNITS),))

    def answer(self, cohort: Cohort) -> WholeTimes:
        return self.of(cohort.time[cohort.event & (cohort.time > 0)])

    @classmethod
    def of(cls, times: FloatArray) -> WholeTimes:
        """Of these times."""
        # Multiples of a unit are among its whole numbers, of which few are different.
        numbers = {base: cls._numbers(times / base) for base, _ in _MADE.values()}

        def at_multiples(unit: float, of: int) -> int:
            base, many = _MADE[unit]
            number, patients = numbers[base]
            return int(patients[number % (many * of) == 0].sum())

        counts = [(at_multiples(unit, 1), at_multiples(unit, 2)) for unit in UNITS]
        whole, even = np.array(counts, dtype=np.float64).T
        return WholeTimes(int(times.size), whole, even)

    @staticmethod
    def _numbers(times: FloatArray) -> tuple[FloatArray, IntArray]:
        """Which whole numbers there are, and how often each."""
        return np.unique(times[are_whole(times)].round(), return_counts=True)
