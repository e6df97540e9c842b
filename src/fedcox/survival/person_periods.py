"""The paper's stack, one row per patient and interval at risk, and single rows of it.

The whole stack is an oracle, not how we fit. Training on batches looks at a hundred rows at a
time, loss and gradient; they are found by the patient's number in the study, so that the stack
itself is never built.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedcox.survival.cohort import BoolArray, Cohort, FloatArray, IntArray
from fedcox.survival.derivatives import Derivatives, risk_of
from fedcox.survival.link import AbstractLink
from fedcox.survival.scaling import Scaling
from fedcox.survival.time_grid import AnyGrid, CensoredInterval

_NEVER = -1


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


@dataclass(frozen=True, eq=False)
class CellChoice:
    """Some cells of one center; a cell may be chosen several times."""

    patient: IntArray  # rows in the cohort
    interval: IntArray  # among the fitted ones


@dataclass(frozen=True, eq=False)
class SingleCells:
    """One center's patients, ready for any of their cells to be looked at.

    covariates  (patients, columns), scaled, in the cohort's order
    rows        (patients,) how many cells each patient has: intervals 0 … rows − 1
    event_at    (patients,) the interval of the event, or −1
    passed      (patients,) how many intervals each passes; the one after counts in part
    part        (patients,) how much of that interval each is at risk, beside an event in it
    rows_of     rows by study number; the last entry stands for all who are not here
    patient_of  place in the cohort by study number
    """

    covariates: FloatArray
    rows: IntArray
    event_at: IntArray
    passed: IntArray
    part: FloatArray
    rows_of: IntArray
    patient_of: IntArray

    @property
    def patients(self) -> int:
        return int(self.rows.size)

    @property
    def total(self) -> int:
        """How many cells this center has."""
        return int(self.rows.sum())

    def among(self, numbers: IntArray, intervals: IntArray) -> CellChoice:
        """Those pairs of study number and interval that are cells of this center."""
        here = (intervals < self.rows_of.take(numbers, mode="clip")).nonzero()[0]
        return CellChoice(self.patient_of[numbers[here]], intervals[here])

    def draw(self, size: int, rng: np.random.Generator) -> CellChoice:
        """Cells of this center drawn uniformly, with replacement; none where it has none."""
        ends = np.cumsum(self.rows)
        total = self.total
        drawn = rng.integers(total, size=size) if total else np.empty(0, dtype=np.int64)
        patient = np.searchsorted(ends, drawn, side="right")
        return CellChoice(patient, drawn - (ends[patient] - self.rows[patient]))

    def gradient(
        self, link: AbstractLink, cells: CellChoice, alpha: FloatArray, beta: FloatArray
    ) -> Derivatives:
        """Loss and gradient summed over the cells."""
        patient, interval = cells.patient, cells.interval
        covariates = self.covariates.take(patient, axis=0, mode="clip")
        v = risk_of(covariates @ beta + alpha[interval])
        cost, slope, _ = link.at_risk(v)
        weight = np.where(self.passed[patient] == interval, self.part[patient], 1.0)
        cost, slope = weight * cost, weight * slope
        happened = (self.event_at[patient] == interval).nonzero()[0]
        if happened.size:  # in most small batches nobody has the event
            event = link.event(v[happened])
            cost[happened] += event.cost
            slope[happened] += event.slope
        of_interval = np.asarray(np.bincount(interval, slope, alpha.size), dtype=np.float64)
        return Derivatives(float(np.add.reduce(cost)), of_interval, slope @ covariates, None)


def single_cells(
    cohort: Cohort,
    grid: AnyGrid,
    reading: CensoredInterval,
    active: BoolArray,
    scaling: Scaling,
) -> SingleCells:
    """Place a cohort on the intervals marked in `active`, with scaled covariates."""
    risk = grid.at_risk(cohort.time, cohort.event, reading).within(active)
    rows = risk.intervals
    covariates = np.empty((cohort.patients, scaling.keep.size))
    scaling.apply(cohort.covariates, out=covariates, complete=cohort.complete)
    numbers = int(cohort.number.max(initial=-1)) + 1
    rows_of = np.zeros(numbers + 1, dtype=np.int64)
    rows_of[cohort.number] = rows
    patient_of = np.zeros(numbers + 1, dtype=np.int64)
    patient_of[cohort.number] = np.arange(cohort.patients)
    return SingleCells(
        covariates,
        rows,
        np.where(risk.event, risk.passed, _NEVER),
        risk.passed,
        risk.part,
        rows_of,
        patient_of,
    )
