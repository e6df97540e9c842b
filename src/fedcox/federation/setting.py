"""What is agreed before a fit and stays the same in every round of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from weakref import WeakKeyDictionary

import numpy as np

from fedcox.federation.query import Agreed
from fedcox.survival.bounds import shaped
from fedcox.survival.cohort import BoolArray, Cohort, FloatArray
from fedcox.survival.link import AbstractLink
from fedcox.survival.person_periods import SingleCells, single_cells
from fedcox.survival.preparation import PreparedPatients, prepare_placed
from fedcox.survival.scaling import Scaling
from fedcox.survival.spline_baseline import SplinePatients
from fedcox.survival.time_at_risk import TimeAtRisk
from fedcox.survival.time_grid import AnyGrid, CensoredInterval, Pieces


@dataclass(frozen=True, eq=False)
class Setting(Agreed):
    """Grid, link, reading of censored intervals, scale, and which intervals are fitted.

    A center gets it once and prepares its patients by it; later questions only refer to it.
    What was prepared stays in the center and is forgotten with the setting. With a `basis` the
    baseline of all pieces is a spline, whose few numbers stand in the place of α.
    """

    grid: AnyGrid
    active: BoolArray
    reading: CensoredInterval
    link: AbstractLink
    scaling: Scaling
    basis: FloatArray | None = None
    _placed: WeakKeyDictionary[Cohort, TimeAtRisk] = field(
        default_factory=WeakKeyDictionary, repr=False
    )
    _prepared: WeakKeyDictionary[Cohort, PreparedPatients] = field(
        default_factory=WeakKeyDictionary, repr=False
    )
    _cells: WeakKeyDictionary[Cohort, SingleCells] = field(
        default_factory=WeakKeyDictionary, repr=False
    )

    @property
    def timing(self) -> Setting:
        return self

    @cached_property
    def intervals(self) -> int:
        """How many intervals are fitted."""
        return int(self.active.sum())

    @property
    def baseline_size(self) -> int:
        """How many numbers the baseline is asked at."""
        return self.intervals if self.basis is None else int(self.basis.shape[1])

    @property
    def columns(self) -> int:
        return int(self.scaling.keep.size)

    def alpha(self, baseline: FloatArray) -> FloatArray:
        """α of each fitted interval, from the numbers that the baseline is asked at."""
        if self.basis is None or not isinstance(self.grid, Pieces):
            return baseline
        return np.asarray(np.log(self.grid.widths[self.active]) + self.basis @ baseline)

    @property
    def numbers(self) -> int:
        """How many numbers describe this setting: its parts, and the name of the reading."""
        basis = 0 if self.basis is None else int(self.basis.size)
        parts = self.grid.numbers, int(self.active.size), self.scaling.numbers, basis
        return sum(parts) + self.link.numbers + 1

    def faults(self, columns: int | None) -> Iterator[str]:
        """All is about the grid's intervals, the fitted ones, or the columns kept."""
        edges = self.grid.edges
        yield from shaped("active", self.active, edges.shape, "one for each interval")
        basis = self.basis
        if basis is not None and (basis.ndim != 2 or len(basis) != self.intervals):
            yield "basis must have a row for each fitted interval"

    def point_faults(self, alpha: FloatArray, beta: FloatArray) -> Iterator[str]:
        """What does not agree of parameters that a question is asked at."""
        size = (self.baseline_size,)
        yield from shaped("alpha", alpha, size, "one for each number of the baseline")
        yield from shaped("beta", beta, (self.columns,), "one for each column kept")

    def prepared(self, cohort: Cohort) -> PreparedPatients:
        """The cohort ready to be summed over, made at the first question and kept."""
        prepared = self._prepared.get(cohort)
        if prepared is None:
            prepared = prepare_placed(
                cohort, self.placed(cohort), self.intervals, self.scaling, self.link
            )
            if self.basis is not None:
                zero = np.zeros(self.baseline_size)
                prepared = SplinePatients(prepared, self.basis, self.alpha(zero))
            self._prepared[cohort] = prepared
        return prepared

    def placed(self, cohort: Cohort) -> TimeAtRisk:
        """The cohort on the fitted intervals of the grid, made and kept likewise."""
        placed = self._placed.get(cohort)
        if placed is None:
            placed = self.grid.at_risk(cohort.time, cohort.event, self.reading)
            placed = self._placed[cohort] = placed.within(self.active)
        return placed

    def cells(self, cohort: Cohort) -> SingleCells:
        """The cohort ready for single cells to be looked at, made and kept likewise."""
        cells = self._cells.get(cohort)
        if cells is None:
            cells = single_cells(cohort, self.grid, self.reading, self.active, self.scaling)
            self._cells[cohort] = cells
        return cells
