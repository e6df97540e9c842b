"""What is agreed before a fit and stays the same in every round of it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Protocol, runtime_checkable
from weakref import WeakKeyDictionary

import numpy as np

from fedcox.federation.evidence import Evidence
from fedcox.privacy.dominance import largest_share
from fedcox.privacy.exposure import Exposure, Known, smallest_of
from fedcox.privacy.levels import smallest_level
from fedcox.survival.cohort import BoolArray, Cohort, FloatArray, IntArray
from fedcox.survival.link import AbstractLink
from fedcox.survival.preparation import PreparedPatients, prepare_placed
from fedcox.survival.scaling import Scaling
from fedcox.survival.single_cells import SingleCells, single_cells
from fedcox.survival.spline_baseline import SplinePatients
from fedcox.survival.time_grid import AnyGrid, CensoredInterval, Pieces, TimeAtRisk


@runtime_checkable
class Timed(Protocol):
    """What is agreed on is a setting, or holds one: by it a center checks claims and grids."""

    @property
    def timing(self) -> Setting: ...


@dataclass(frozen=True, eq=False)
class Setting:
    """Grid, link, reading of censored intervals, scale, and which intervals are fitted.

    A center gets it once and prepares its patients by it; later questions only refer to it.
    What was prepared stays in the center and is forgotten with the setting. `leavers` counts,
    over all centers, the patients at risk last in no interval, the first, the second, …, those
    without the event there and those with it. It is agreed on where only sums over centers are
    seen, and limits are compared with it, and with how many values of each column are
    `present`; by the `evidence` centers check both. With a `basis` the baseline of all pieces
    is a spline, whose few numbers stand in the place of α.
    """

    grid: AnyGrid
    active: BoolArray
    reading: CensoredInterval
    link: AbstractLink
    scaling: Scaling
    leavers: IntArray | None = None
    evidence: Evidence | None = None
    present: FloatArray | None = None
    basis: FloatArray | None = None
    _placed: WeakKeyDictionary[Cohort, TimeAtRisk] = field(
        default_factory=WeakKeyDictionary, repr=False
    )
    _prepared: WeakKeyDictionary[Cohort, PreparedPatients] = field(
        default_factory=WeakKeyDictionary, repr=False
    )
    _exposed: WeakKeyDictionary[Cohort, tuple[Exposure, Exposure]] = field(
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
        """How many numbers describe this setting: its parts, and the name of the reading.

        Evidence counts none: the covariate scatter brought it, and it is only named again.
        """
        parts = self.grid.numbers, int(self.active.size), self.scaling.numbers
        told = 0 if self.leavers is None else int(self.leavers.size)
        told += 0 if self.present is None else int(self.present.size)
        told += 0 if self.basis is None else int(self.basis.size)
        return sum(parts) + self.link.numbers + 1 + told

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

    def exposure(
        self, cohort: Cohort, *, chosen: IntArray | None = None, blocks: bool = False
    ) -> Exposure:
        """Of a reply by interval: over all of the cohort, or over its `chosen` rows.

        `blocks` says that the reply holds a time × covariate block.
        """
        if chosen is None:
            return self._whole_exposure(cohort)[blocks]
        part = self._exposure_of(cohort.event[chosen], self.placed(cohort).rows(chosen))
        # What all centers agreed on is about everyone, not about a batch.
        part = replace(part, pooled_group=None, pooled_part=None, batch=True)
        return replace(part, time_by_covariate=True) if blocks else part

    def _whole_exposure(self, cohort: Cohort) -> tuple[Exposure, Exposure]:
        """Without and with a time × covariate block, made at the first question and kept."""
        both = self._exposed.get(cohort)
        if both is None:
            whole = self._exposure_of(cohort.event, self.placed(cohort))
            both = whole, replace(whole, time_by_covariate=True)
            self._exposed[cohort] = both
        return both

    def _exposure_of(self, events: BoolArray, placed: TimeAtRisk) -> Exposure:
        own = placed.leavers(self.intervals)
        pooled = self.leavers
        if pooled is not None and (pooled.shape != own.shape or (own > pooled).any()):
            pooled = np.zeros_like(own)  # a claim that cannot be counts nothing
        if self.basis is not None:  # nothing in a reply is about one piece
            return Exposure(
                int(events.size),
                int(np.count_nonzero(events)),
                parameters=self.baseline_size + self.columns,
            )
        if not self.link.grouped:
            # Events add a number that is known, and who leaves without one does so somewhere
            # inside a piece: the groups are those who leave in each, with the event or not.
            own = own.sum(axis=0, keepdims=True)[:, 1:]
            pooled = None if pooled is None else pooled.sum(axis=0, keepdims=True)[:, 1:]
        return Exposure(
            int(events.size),
            int(np.count_nonzero(events)),
            smallest_group=smallest_of(own.sum(axis=0)),
            smallest_part=smallest_of(own),
            pooled_group=None if pooled is None else smallest_of(pooled.sum(axis=0)),
            pooled_part=None if pooled is None else smallest_of(pooled),
            parameters=self.intervals + self.columns,
        )

    def known(
        self,
        cohort: Cohort,
        alpha: FloatArray,
        beta: FloatArray,
        chosen: IntArray | None = None,
    ) -> Known:
        """What else limits are compared with, at these parameters."""
        patients = None if self.leavers is None else int(self.leavers.sum())
        scaling = self.scaling
        return Known(
            edges=self.grid.edges,
            level=smallest_level(
                cohort,
                rows=chosen,
                columns=scaling.keep,
                mean=scaling.mean,
                present=self.present,
            ),
            share=largest_share(
                cohort,
                self.placed(cohort),
                scaling,
                self.link,
                self.alpha(alpha),
                beta,
                chosen,
            ),
            patients=patients,
            spread=None if patients is None else self._own_part(cohort, patients),
        )

    def _own_part(self, cohort: Cohort, patients: int) -> float:
        """The largest part of a column's claimed sum of squares that is this center's own."""
        scaled = np.empty((cohort.patients, self.columns))
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            # A spread of zero is the coordinator's word, and refused.
            self.scaling.apply(cohort.covariates, out=scaled)
            squares = np.square(scaled).sum(axis=0)
        return float(squares.max(initial=0.0)) / patients

    def cells(self, cohort: Cohort) -> SingleCells:
        """The cohort ready for single cells to be looked at, made and kept likewise."""
        cells = self._cells.get(cohort)
        if cells is None:
            cells = single_cells(cohort, self.grid, self.reading, self.active, self.scaling)
            self._cells[cohort] = cells
        return cells
