"""Patients ordered so that everyone at risk in an interval stands in front.

This is what a fit works on. It is made once per center and never leaves it; the stack of
patients × intervals is never built.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sparse

from fedcox.survival.cohort import BoolArray, Cohort, FloatArray, IntArray, NumberedPatients
from fedcox.survival.derivatives import Curvature, Derivatives
from fedcox.survival.link import AbstractLink
from fedcox.survival.scaling import Scaling
from fedcox.survival.threads import in_order, parts
from fedcox.survival.time_at_risk import TimeAtRisk

_BLOCK = 512  # rows scaled at a time: they stay in the cache between subtraction and division
#: How many patients a group has on average to be worth its calls; measured, with a margin.
_MANY = 64


@dataclass(frozen=True, eq=False)
class Cells:
    """Single (patient, interval) cells, at most one a patient, in the patients' order."""

    patient: IntArray
    interval: IntArray
    shape: tuple[int, int]  # intervals, patients

    @cached_property
    def flat(self) -> IntArray:
        """Positions in a flattened (intervals, patients) array."""
        return self.interval * self.shape[1] + self.patient

    def within(self, start: int, stop: int, depth: int) -> Cells:
        """Those of neighbours, counted from the first, who have the first `depth` intervals."""
        first, last = np.searchsorted(self.patient, (start, stop))
        inside = slice(first, last)
        return Cells(self.patient[inside] - start, self.interval[inside], (depth, stop - start))

    def from_interval(self, first: int) -> Cells:
        """The same cells where the intervals before `first`, empty here, are left out."""
        shape = (self.shape[0] - first, self.shape[1])
        return Cells(self.patient, self.interval - first, shape)

    @cached_property
    def _sorted(self) -> tuple[IntArray, sparse.csr_array]:
        by_interval = np.argsort(self.interval, kind="stable")
        counts = np.bincount(self.interval, minlength=self.shape[0])
        pointers = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
        patient = self.patient[by_interval].astype(np.int32)
        ones = np.ones(patient.size)
        return by_interval, sparse.csr_array((ones, patient, pointers), shape=self.shape)

    def sum_rows(self, weight: FloatArray, covariates: FloatArray) -> FloatArray:
        """Σ weight · x over the cells of each interval: (intervals, columns)."""
        by_interval, matrix = self._sorted
        matrix.data = weight[by_interval]
        return np.asarray(matrix @ covariates)


@dataclass(frozen=True, eq=False)
class RiskOrder:
    """One center's patients, those who pass most intervals first.

    rows        (patients,) their rows in the cohort
    survived    (patients,) how many active intervals each passes without the event, decreasing
    surviving   (active intervals,) how many patients pass each; they are the first so many
    events      cells with an event
    halves      cells at risk with weight one half, or None
    """

    cohort: Cohort
    scaling: Scaling
    rows: IntArray
    survived: IntArray
    surviving: IntArray
    events: Cells
    halves: Cells | None

    @property
    def patients(self) -> int:
        return int(self.rows.size)

    @property
    def columns(self) -> int:
        return int(self.scaling.keep.size)

    def depth(self, start: int) -> int:
        """How many intervals this patient, and all who follow, are at risk in at most."""
        # One interval more than this one passes: somebody may have the event there.
        return min(int(self.survived[start]) + 1, int(self.surviving.size))

    @cached_property
    def reached(self) -> int:
        """How many intervals, from the first on, somebody is at risk in."""
        single = [
            self.events.interval,
            *([] if self.halves is None else [self.halves.interval]),
        ]
        last = max(int(interval.max(initial=-1)) for interval in single)
        return max(int(np.count_nonzero(self.surviving)), last + 1)

    def rates(self, alpha: FloatArray) -> FloatArray | None:
        """exp(α), zero where nobody is at risk; or none: together they are beyond any number.

        A product of a risk that is zero and a rate that is infinite would be no number.
        """
        rates = np.exp(alpha)
        rates[self.reached :] = 0.0
        return rates if np.isfinite(np.add.reduce(rates)) else None

    def cells(self, start: int, stop: int) -> tuple[Cells, Cells | None]:
        """Those with an event, and those that count one half, of some neighbours."""
        depth = self.depth(start)
        halves = None if self.halves is None else self.halves.within(start, stop, depth)
        return self.events.within(start, stop, depth), halves

    def scaled(self, start: int, stop: int, out: FloatArray) -> None:
        """Write the scaled covariates of some neighbours into `out` (patients, columns)."""
        # Rows come from a sort, so they need no check; "clip" is the fast way to say so.
        whole = self.columns == self.cohort.columns
        block = self.cohort.covariates.take(
            self.rows[start:stop], axis=0, mode="clip", out=out if whole else None
        )
        self.scaling.apply(block, out=out, complete=self.cohort.complete)

    @cached_property
    def covariates(self) -> FloatArray:
        """The scaled covariates of all patients in this order, (patients, columns)."""
        scaled = np.empty((self.patients, self.columns))

        def scale(part: slice) -> None:
            for start in range(part.start, part.stop, _BLOCK):
                stop = min(start + _BLOCK, part.stop)
                self.scaled(start, stop, out=scaled[start:stop])

        in_order(scale, parts(self.patients, self.columns))
        return scaled

    @cached_property
    def leaving(self) -> sparse.csr_array:
        """Sums patients by the last interval they pass; the last interval is the first row.

        Patients stand in decreasing order, so with the intervals reversed every row of this
        matrix is a run of neighbours. Its data are free to be replaced by weights.
        """
        pointers = np.concatenate([[0], self.surviving[::-1]]).astype(np.int32)
        columns = np.arange(int(pointers[-1]), dtype=np.int32)
        return sparse.csr_array(
            (np.ones(columns.size), columns, pointers),
            shape=(self.surviving.size, self.patients),
        )

    @cached_property
    def _numbered(self) -> NumberedPatients:
        return NumberedPatients(self.cohort.number[self.rows])

    def draw(self, numbers: IntArray) -> RiskOrder:
        """The patients with these study numbers, repeated as often as they are drawn."""
        drawn = self._numbered.drawn(numbers)
        survived = self.survived[drawn]
        return RiskOrder(
            cohort=self.cohort,
            scaling=self.scaling,
            rows=self.rows[drawn],
            survived=survived,
            surviving=_how_many_pass(survived, self.surviving.size),
            events=_drawn(self.events, drawn, self.patients),
            halves=None if self.halves is None else _drawn(self.halves, drawn, self.patients),
        )


def order_by_risk(cohort: Cohort, risk: TimeAtRisk, total: int, scaling: Scaling) -> RiskOrder:
    """Order patients by how many of `total` intervals they pass, on scaled covariates."""
    survived, half = risk.passed, risk.part > 0
    key = total - survived
    if total < 2**13:  # few intervals: those who leave in the same way, too, stand together
        key = 4 * key + 2 * risk.event + half
    # Small integers sort by counting, and 16 bits are enough for all but the longest grids.
    order = np.argsort(key.astype(np.int16 if total < 2**15 else np.int64), kind="stable")
    survived, event, half = survived[order], risk.event[order], half[order]
    shape = (total, survived.size)
    # An event happens, and a half counts, in the interval after those that were passed.
    return RiskOrder(
        cohort=cohort,
        scaling=scaling,
        rows=order,
        survived=survived,
        surviving=_how_many_pass(survived, total),
        events=Cells(np.flatnonzero(event), survived[event], shape),
        halves=Cells(np.flatnonzero(half), survived[half], shape) if half.any() else None,
    )


def _how_many_pass(survived: IntArray, total: int) -> IntArray:
    return np.asarray(survived.size - np.cumsum(np.bincount(survived, minlength=total + 1)))[
        :-1
    ]


def _drawn(cells: Cells, rows: IntArray, patients: int) -> Cells:
    interval = np.full(patients, -1, dtype=np.int64)
    interval[cells.patient] = cells.interval
    drawn = interval[rows]
    patient = np.flatnonzero(drawn >= 0)
    return Cells(patient, drawn[patient], (cells.shape[0], rows.size))


@dataclass(frozen=True, eq=False)
class AlikePatients:
    """Neighbours in risk order who pass the same intervals and leave in the same way.

    At β = 0 patients with the same cells are alike, and a group of them counts as one. Every
    fit asks for its first Hessian there. Cells are computed once a group, and the square needs
    no weighted copy of the covariates: less than half the work of any other point.

    size        (groups,) how many they are
    survived    (groups,) how many intervals they pass
    event       (groups,) whether they have the event in the next one
    half        (groups,) whether the next one counts one half
    parts       group, and scaled columns of those of its patients who stand in one slab
    """

    size: IntArray
    survived: IntArray
    event: BoolArray
    half: BoolArray
    parts: tuple[tuple[int, FloatArray], ...]

    @classmethod
    def of(cls, order: RiskOrder, slabs: Sequence[FloatArray]) -> AlikePatients:
        """Find the groups; `slabs` hold the columns of all patients, (columns, patients)."""
        event, half = _marked(order.events, order), _marked(order.halves, order)
        first = np.flatnonzero(np.diff(4 * order.survived + 2 * event + half, prepend=-1))
        ends = np.append(first[1:], order.patients)
        return cls(
            ends - first,
            order.survived[first],
            event[first],
            half[first],
            tuple(_parts(ends.tolist(), slabs)),
        )

    @property
    def worthwhile(self) -> bool:
        """Whether the groups are large enough to save time."""
        return int(self.size.sum()) >= _MANY * self.size.size

    def hessian(self, link: AbstractLink, rates: FloatArray, columns: int) -> Derivatives:
        """Loss, gradient and Hessian at (α, 0); `rates` are exp(α)."""
        at_risk, event = link.at_risk(rates), link.event(rates)
        cost, slope, curvature = map(self._cells, at_risk, event)
        weight = np.add.reduce(curvature, 0)
        ones = np.ones(self.size.max(initial=0))

        def sums(part: slice) -> tuple[FloatArray, FloatArray]:
            total, square = np.zeros((self.size.size, columns)), np.zeros((columns, columns))
            for group, x in self.parts[part]:
                total[group] += x @ ones[: x.shape[1]]  # a product sums rows faster than a sum
                square += weight[group] * (x @ x.T)
            return total, square

        each = int(self.size.sum()) * columns // max(len(self.parts), 1)
        both = in_order(sums, parts(len(self.parts), each))
        total, square = (np.asarray(sum(some)) for some in zip(*both, strict=True))
        return Derivatives(
            float((cost @ self.size).sum()),
            slope @ self.size,
            np.add.reduce(slope, 0) @ total,
            Curvature(curvature @ self.size, curvature @ total, square),
        )

    def _cells(self, at_risk: FloatArray, event: FloatArray) -> FloatArray:
        """What each interval adds for one patient of each group: (intervals, groups)."""
        interval = np.arange(at_risk.size)[:, None]
        cells = np.where(interval < self.survived, at_risk[:, None], 0.0)
        for leaving, values in ((self.event, event), (self.half, 0.5 * at_risk)):
            last = self.survived[leaving]
            cells[last, np.flatnonzero(leaving)] = values[last]
        return cells


def _marked(cells: Cells | None, order: RiskOrder) -> BoolArray:
    marked = np.zeros(order.patients, dtype=np.bool_)
    if cells is not None:
        marked[cells.patient] = True
    return marked


def _parts(ends: list[int], slabs: Sequence[FloatArray]) -> Iterator[tuple[int, FloatArray]]:
    """Cut the slabs wherever a group ends."""
    group = start = 0
    for columns in slabs:
        first, stop = start, start + columns.shape[1]
        while first < stop:
            last = min(ends[group], stop)
            yield group, columns[:, first - start : last - start]
            group += last == ends[group]
            first = last
        start = stop
