"""How many patients are at risk in each interval, and have the event there? A life table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from typing import ClassVar

import numpy as np

from fedcox.federation.query import AbstractSumQuery
from fedcox.federation.sums import FieldSum, Shapes
from fedcox.survival.bounds import MOST_PATIENTS, are_counts
from fedcox.survival.cohort import Cohort, FloatArray, IntArray
from fedcox.survival.threads import in_order, parts
from fedcox.survival.time_grid import LOOK_UP, AnyGrid, CensoredInterval, Pieces


@dataclass(frozen=True, eq=False)
class Counts(FieldSum):
    """Patients, and by interval: how many reach it, are at risk in it, or have the event there.

    `at_risk` is what a hazard divides by: patients who leave inside an interval count there as
    far as the study's reading of censored intervals, or their time in a piece, says. Follow-up
    of `passed` patients goes on after the horizon, and `late_events` of them have the event
    there, where it does not count.
    """

    patients: int
    passed: int
    late_events: int
    reached: FloatArray  # (intervals,) whole patients
    at_risk: FloatArray  # (intervals,)
    events: FloatArray  # (intervals,)

    def faults(self, columns: int | None) -> Iterator[str]:
        """Nobody is at risk or has an event who does not reach an interval, and so on."""
        arrays = self.reached, self.at_risk, self.events
        sane = 0 <= self.late_events <= self.passed <= self.patients <= MOST_PATIENTS
        if not sane or len({array.shape for array in arrays}) > 1:
            yield "patients, passed and late_events are no counts of the same patients"
        elif not are_counts(self.reached, self.patients):
            yield "reached are no counts among the patients"
        elif not all(are_counts(array, self.reached) for array in arrays[1:]):
            yield "at_risk and events are no counts among those who reach an interval"

    def cells(self, *, grouped: bool) -> FloatArray:
        """Rows of the stack in each interval; those of grouped time may count one half."""
        return self.at_risk if grouped else self.reached

    def up_to(self, last: int) -> Counts:
        """Of the first intervals alone, where nobody reaches the others."""
        by_interval = (part[:last] for part in (self.reached, self.at_risk, self.events))
        return Counts(self.patients, self.passed, self.late_events, *by_interval)

    def joined(self, cells: Pieces, kept: IntArray, pieces: Pieces) -> Counts:
        """The counts of `pieces`, which `cells` with these counts are joined to.

        `kept` are the places of those bounds that remain, the first and the last among them.
        """
        first = kept[:-1]
        events, reached = np.add.reduceat(self.events, first), self.reached[first]
        at_risk = np.add.reduceat(self.at_risk * cells.widths, first) / pieces.widths
        return Counts(self.patients, self.passed, self.late_events, reached, at_risk, events)


@dataclass(frozen=True, eq=False)
class IntervalCounts(AbstractSumQuery[Counts]):
    """The life table of a center on the study's grid."""

    words: ClassVar = {"interval counts": "patients at risk and events in each interval"}
    by_default = True

    grid: AnyGrid
    reading: CensoredInterval

    @property
    def numbers(self) -> int:
        return self.grid.numbers + 1

    def shapes(self, columns: int | None) -> Shapes:
        return dict.fromkeys(("reached", "at_risk", "events"), self.grid.edges.shape)

    def answer(self, cohort: Cohort) -> Counts:
        cut = parts(cohort.patients, LOOK_UP, least=4 * self.grid.intervals)
        return reduce(self.combine, in_order(lambda part: self._of(cohort, part), cut))

    def _of(self, cohort: Cohort, part: slice) -> Counts:
        """Of some neighbours."""
        time, event = cohort.time[part], cohort.event[part]
        risk = self.grid.at_risk(time, event, self.reading)
        size = self.grid.intervals
        leavers = risk.leavers(size)
        reached = (time.size - np.cumsum(leavers.sum(axis=0))[:size]).astype(np.float64)
        # An event is in the interval after those that were passed.
        events = leavers[1, 1:].astype(np.float64)
        passing = time.size - np.cumsum(np.bincount(risk.passed, minlength=size + 1))
        lived = np.asarray(np.bincount(risk.passed, risk.part, size + 1), dtype=np.float64)
        at_risk = passing[:size] + lived[:size]
        late = event & ~risk.event
        return Counts(
            time.size,
            int(np.count_nonzero(late | (time > self.grid.horizon * (1.0 + 1e-9)))),
            int(np.count_nonzero(late)),
            reached,
            at_risk + events if self.grid.grouped else at_risk,
            events,
        )
