"""How many patients are at risk in each interval, and have the event there? A life table."""

from __future__ import annotations

from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

import numpy as np

from fedcox.federation.query import AbstractSumQuery
from fedcox.privacy.exposure import Exposure, Known, smallest_of
from fedcox.survival.cohort import Cohort, FloatArray
from fedcox.survival.time_grid import CensoredInterval, TimeAtRisk, TimeGrid


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
    _placed: WeakKeyDictionary[Cohort, TimeAtRisk] = field(
        default_factory=WeakKeyDictionary, repr=False
    )

    @property
    def name(self) -> str:
        return "interval counts"

    @property
    def numbers(self) -> int:
        return self.grid.numbers + 1

    def exposure(self, cohort: Cohort) -> Exposure:
        leavers = self._risk(cohort).leavers(self.grid.intervals)
        return Exposure(
            cohort.patients,
            int(np.count_nonzero(cohort.event)),
            smallest_group=smallest_of(leavers.sum(axis=0)),
            smallest_part=smallest_of(leavers),
            counts=True,
        )

    def known(self, cohort: Cohort) -> Known:
        return Known(edges=self.grid.edges)

    def answer(self, cohort: Cohort) -> Counts:
        risk = self._risk(cohort)
        size = self.grid.intervals
        leaving = np.bincount(risk.intervals, minlength=size + 1)
        at_risk = (cohort.patients - np.cumsum(leaving)[:size]).astype(np.float64)
        at_risk += 0.5 * np.bincount(risk.intervals[risk.half], minlength=size)
        events = np.bincount(risk.intervals[risk.event] - 1, minlength=size).astype(np.float64)
        return Counts(cohort.patients, at_risk, events)

    def _risk(self, cohort: Cohort) -> TimeAtRisk:
        """The cohort on the grid: looked at for the reply, and for how few it describes."""
        risk = self._placed.get(cohort)
        if risk is None:
            risk = self.grid.at_risk(cohort.time, cohort.event, self.reading)
            self._placed[cohort] = risk
        return risk

    def pack(self, answer: Counts) -> FloatArray:
        return np.concatenate([[answer.patients], answer.at_risk, answer.events])

    def unpack(self, vector: FloatArray) -> Counts:
        at_risk, events = np.split(vector[1:], 2)
        return Counts(round(vector[0]), at_risk, events)
