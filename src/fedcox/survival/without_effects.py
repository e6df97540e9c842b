"""β = 0: patients with the same cells are alike, and a group of them counts as one.

Every fit asks for its first Hessian there. Cells are computed once a group, and the square
needs no weighted copy of the covariates: less than half the work of any other point.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from fedcox.survival.cohort import BoolArray, FloatArray, IntArray
from fedcox.survival.derivatives import Curvature, Derivatives
from fedcox.survival.link import AbstractLink
from fedcox.survival.risk_order import Cells, RiskOrder
from fedcox.survival.threads import in_order, parts

#: How many patients a group has on average to be worth its calls; measured, with a margin.
_MANY = 64


@dataclass(frozen=True, eq=False)
class AlikePatients:
    """Neighbours in risk order who pass the same intervals and leave in the same way.

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
