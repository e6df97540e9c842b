"""How many patients are at risk in each interval, and have the event there? A life table."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedcox.federation.query import AbstractSumQuery
from fedcox.survival.cohort import Cohort, FloatArray
from fedcox.survival.time_grid import CensoredInterval, TimeGrid


@dataclass(frozen=True, eq=False)
class Counts:
    """Patients, and per interval how many are at risk (halves count 0.5) or have the event."""

    patients: int
    at_risk: FloatArray  # (intervals,)
    events: FloatArray  # (intervals,)

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.patients + other.patients,
            self.at_risk + other.at_risk,
            self.events + other.events,
        )


@dataclass(frozen=True, eq=False)
class IntervalCounts(AbstractSumQuery[Counts]):
    """The life table of a center on the study's grid."""

    grid: TimeGrid
    reading: CensoredInterval

    @property
    def name(self) -> str:
        return "interval counts"

    @property
    def numbers(self) -> int:
        return self.grid.numbers + 1

    def answer(self, cohort: Cohort) -> Counts:
        risk = self.grid.at_risk(cohort.time, cohort.event, self.reading)
        size = self.grid.intervals
        leaving = np.bincount(risk.intervals, minlength=size + 1)
        at_risk = (cohort.patients - np.cumsum(leaving)[:size]).astype(np.float64)
        at_risk += 0.5 * np.bincount(risk.intervals[risk.half], minlength=size)
        events = np.bincount(risk.intervals[risk.event] - 1, minlength=size).astype(np.float64)
        return Counts(cohort.patients, at_risk, events)

    def combine(self, left: Counts, right: Counts) -> Counts:
        return left + right

    def numbers_in(self, answer: Counts) -> int:
        return 1 + answer.at_risk.size + answer.events.size
