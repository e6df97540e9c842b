"""The paper's stack, one row per patient and interval at risk: an oracle, not how we fit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedcox.survival.cohort import BoolArray, Cohort, FloatArray, IntArray
from fedcox.survival.time_grid import AnyGrid, CensoredInterval


@dataclass(frozen=True, eq=False)
class PersonPeriods:
    """Row r: patient `patient[r]` at risk in interval `interval[r]`, with `weight[r]`."""

    patient: IntArray
    interval: IntArray
    event: BoolArray
    weight: FloatArray

    def design(self, cohort: Cohort, intervals: int) -> FloatArray:
        """Indicators of the interval beside the covariates: (rows, intervals + columns)."""
        indicators = np.zeros((self.patient.size, intervals))
        indicators[np.arange(self.patient.size), self.interval] = 1.0
        return np.hstack([indicators, cohort.covariates[self.patient]])


def stack(cohort: Cohort, grid: AnyGrid, reading: CensoredInterval) -> PersonPeriods:
    """Write each patient's follow-up as rows of "at risk, event or not".

    A patient censored inside an interval is at risk in it and has no event there, as in Cox's
    risk set; `reading` offers the paper's other reading and the half-way one.
    """
    risk = grid.at_risk(cohort.time, cohort.event, reading)
    rows = risk.intervals
    patient = np.repeat(np.arange(cohort.patients), rows)
    first = np.cumsum(rows) - rows
    interval = np.arange(patient.size) - np.repeat(first, rows)
    leaving = interval == risk.passed[patient]
    event = leaving & risk.event[patient]
    whole = event & grid.grouped  # of a piece, the time lived through
    weight = np.where(leaving & ~whole, risk.part[patient], 1.0)
    return PersonPeriods(patient, interval, event, weight)
