"""What is agreed before a fit and stays the same in every round of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from weakref import WeakKeyDictionary

from fedcox.survival.cohort import BoolArray, Cohort
from fedcox.survival.link import AbstractLink
from fedcox.survival.preparation import PreparedPatients, prepare
from fedcox.survival.scaling import Scaling
from fedcox.survival.single_cells import SingleCells, single_cells
from fedcox.survival.time_grid import CensoredInterval, TimeGrid


@dataclass(frozen=True, eq=False)
class Setting:
    """Grid, link, reading of censored intervals, scale, and which intervals are fitted.

    A center gets it once and prepares its patients by it; later questions only refer to it.
    What was prepared stays in the center and is forgotten with the setting.
    """

    grid: TimeGrid
    active: BoolArray
    reading: CensoredInterval
    link: AbstractLink
    scaling: Scaling
    _prepared: WeakKeyDictionary[Cohort, PreparedPatients] = field(
        default_factory=WeakKeyDictionary, repr=False
    )
    _cells: WeakKeyDictionary[Cohort, SingleCells] = field(
        default_factory=WeakKeyDictionary, repr=False
    )

    @cached_property
    def intervals(self) -> int:
        """How many intervals are fitted."""
        return int(self.active.sum())

    @property
    def columns(self) -> int:
        return int(self.scaling.keep.size)

    @property
    def numbers(self) -> int:
        """How many numbers describe this setting: its parts, and the name of the reading."""
        parts = self.grid.numbers, int(self.active.size), self.scaling.numbers
        return sum(parts) + self.link.numbers + 1

    def prepared(self, cohort: Cohort) -> PreparedPatients:
        """The cohort ready to be summed over, made at the first question and kept."""
        prepared = self._prepared.get(cohort)
        if prepared is None:
            prepared = prepare(
                cohort, self.grid, self.reading, self.active, self.scaling, self.link
            )
            self._prepared[cohort] = prepared
        return prepared

    def cells(self, cohort: Cohort) -> SingleCells:
        """The cohort ready for single cells to be looked at, made and kept likewise."""
        cells = self._cells.get(cohort)
        if cells is None:
            cells = single_cells(cohort, self.grid, self.reading, self.active, self.scaling)
            self._cells[cohort] = cells
        return cells
