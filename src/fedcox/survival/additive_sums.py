"""A link whose costs add up: no cell is computed, what patients pass is a sum of rates.

With cloglog a patient who passes several intervals costs risk × Σ rates, and an interval
rate × Σ risks of those who pass it. Cells with an event remain, at most one a patient.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fedcox.survival.cohort import FloatArray, IntArray
from fedcox.survival.derivatives import Curvature, Derivatives, Detail, risk_of
from fedcox.survival.link import AbstractLink, Terms
from fedcox.survival.risk_order import Cells, RiskOrder
from fedcox.survival.weighted_square import square_of_columns


@dataclass(frozen=True, eq=False)
class Runs:
    """Neighbours in risk order who pass the same number of intervals.

    first       (runs,) the first patient of each run
    size        (runs,) how many they are
    survived    (runs,) how many intervals they pass, decreasing
    places      `survived` of each run, and where its patients stand
    """

    first: IntArray
    size: IntArray
    survived: IntArray
    places: tuple[tuple[int, slice], ...]

    @classmethod
    def of(cls, survived: IntArray) -> Runs:
        first = np.flatnonzero(survived[1:] != survived[:-1]) + 1
        first = np.concatenate(([0], first))
        ends = np.concatenate((first[1:], [survived.size]))
        places = zip(survived[first].tolist(), map(slice, first, ends), strict=True)
        return cls(first, ends - first, survived[first], tuple(places))


@dataclass(frozen=True, eq=False)
class Slab:
    """Neighbours in risk order, as many as the cache holds the covariates of.

    order       of all the center's patients
    start       the first of these
    columns     (columns, patients), scaled: column by column, long runs for the processor
    """

    order: RiskOrder
    start: int
    columns: FloatArray

    @property
    def stop(self) -> int:
        """The first patient after these."""
        return self.start + int(self.columns.shape[1])

    @cached_property
    def depth(self) -> int:
        """How many intervals any of them is at risk in, from the first on."""
        return self.order.depth(self.start)

    @cached_property
    def _runs(self) -> Runs:
        return Runs.of(self.order.survived[self.start : self.stop])

    @cached_property
    def _cells(self) -> tuple[Cells, Cells | None]:
        return self.order.cells(self.start, self.stop)

    def derivatives(
        self,
        link: AbstractLink,
        rates: FloatArray,
        beta: FloatArray,
        detail: Detail,
        scratch: FloatArray,
    ) -> Derivatives:
        """Sums over the slab for an additive link; `rates` are exp(α) of its own intervals.

        `scratch` is memory for as many columns and patients. The curvature is that of the loss.
        """
        columns, runs, (events, halves) = self.columns, self._runs, self._cells
        risk, depth = risk_of(beta @ columns), rates.size
        passed = np.concatenate(([0.0], np.add.accumulate(rates)))
        of_patient = risk * np.repeat(passed[runs.survived], runs.size)
        leaving = np.zeros(depth + 1)
        leaving[runs.survived] = np.add.reduceat(risk, runs.first)
        of_interval = rates * _passing(leaving)
        half = None if halves is None else 0.5 * _v(halves, rates, risk)
        if half is not None and halves is not None:
            of_patient[halves.patient] += half
            of_interval += np.bincount(halves.interval, half, depth)
        event = link.event(_v(events, rates, risk))
        cost = float(np.add.reduce(of_patient)) + float(np.add.reduce(event.cost))
        weight, curved = of_patient.copy(), of_interval.copy()
        of_patient[events.patient] += event.slope
        of_interval += np.bincount(events.interval, event.slope, depth)
        found = Derivatives(cost, of_interval, columns @ of_patient, None)
        if detail is Detail.GRADIENT:
            return found
        weight[events.patient] += event.curvature
        curved += np.bincount(events.interval, event.curvature, depth)
        if detail is Detail.DIAGONAL:
            return found._replace(curvature=Curvature(curved, None, columns**2 @ weight))
        # Before the square, whose memory drives the columns out of the cache.
        cross = None if detail is Detail.BLOCK else self._cross(rates, risk, event, half)
        square = square_of_columns(columns, weight, scratch)
        return found._replace(curvature=Curvature(curved, cross, square))

    def _cross(
        self, rates: FloatArray, risk: FloatArray, event: Terms, half: FloatArray | None
    ) -> FloatArray:
        """Curvature of α by β: those who pass an interval, and the cells in it."""
        events, halves = self._cells
        weight = np.zeros((2, risk.size))
        weight[0] = risk
        weight[1, events.patient] = event.curvature
        if halves is not None and half is not None:
            weight[1, halves.patient] = half
        sums = np.zeros((rates.size + 1, 2, len(self.columns)))
        for survived, own in self._runs.places:
            np.dot(weight[:, own], self.columns[:, own].T, out=sums[survived])
        # Whoever passes m intervals has the event, if any, in the one that follows: number m.
        return rates[:, None] * _passing(sums[:, 0]) + sums[:-1, 1]


def _passing(leaving: FloatArray) -> FloatArray:
    """Sums over those who pass each interval, from sums over those who pass just so many."""
    return np.asarray(np.add.accumulate(leaving[:0:-1])[::-1])


def _v(cells: Cells, rates: FloatArray, risk: FloatArray) -> FloatArray:
    return np.asarray(rates.take(cells.interval) * risk.take(cells.patient))
