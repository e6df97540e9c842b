"""What is agreed before a fit and stays the same in every round of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from weakref import WeakKeyDictionary

import numpy as np

from fedcox.federation.query import Agreed
from fedcox.models.predictor import AbstractPredictor
from fedcox.models.predictors.linear import LINEAR, linear_alone
from fedcox.survival.bounds import shaped
from fedcox.survival.cohort import BoolArray, Cohort, FloatArray, IntArray
from fedcox.survival.derivatives import Derivatives
from fedcox.survival.link import AbstractLink
from fedcox.survival.person_periods import SingleCells, single_cells
from fedcox.survival.preparation import PreparedPatients, prepare_placed
from fedcox.survival.scaling import Scaling
from fedcox.survival.spline_baseline import SplinePatients
from fedcox.survival.time_at_risk import TimeAtRisk
from fedcox.survival.time_grid import AnyGrid, CensoredInterval, Pieces


@dataclass(frozen=True, eq=False)
class Setting(Agreed):
    """The model α + φ(x): grid, link, reading of censored intervals, scale, and which φ.

    `active` says which intervals are fitted, each with an α of its own.

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
    predictor: AbstractPredictor = LINEAR
    _placed: WeakKeyDictionary[Cohort, TimeAtRisk] = field(
        default_factory=WeakKeyDictionary, repr=False
    )
    _prepared: WeakKeyDictionary[Cohort, PreparedPatients] = field(
        default_factory=WeakKeyDictionary, repr=False
    )
    _cells: WeakKeyDictionary[Cohort, SingleCells] = field(
        default_factory=WeakKeyDictionary, repr=False
    )
    _scored: WeakKeyDictionary[Cohort, tuple[FloatArray, PreparedPatients]] = field(
        default_factory=WeakKeyDictionary, repr=False
    )

    def with_predictor(self, predictor: AbstractPredictor) -> Setting:
        """The same time and scale with another φ, nothing prepared."""
        parts = self.grid, self.active, self.reading, self.link, self.scaling, self.basis
        return Setting(*parts, predictor)

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
        """How many columns are kept."""
        return int(self.scaling.keep.size)

    @cached_property
    def parameters(self) -> int:
        """How many numbers β has."""
        return self.predictor.parameters(self.columns)

    def start(self, seed: int = 0) -> FloatArray:
        """Where β begins: the same seed gives the same bits."""
        return self.predictor.start(self.columns, seed)

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
        return sum(parts) + self.link.numbers + 1 + self.predictor.numbers

    def faults(self, columns: int | None) -> Iterator[str]:
        """All is about the grid's intervals, the fitted ones, or the columns kept."""
        if self.basis is not None:
            yield from linear_alone(self.predictor)
        edges = self.grid.edges
        yield from shaped("active", self.active, edges.shape, "one for each interval")
        basis = self.basis
        if basis is not None and (basis.ndim != 2 or len(basis) != self.intervals):
            yield "basis must have a row for each fitted interval"

    def point_faults(self, alpha: FloatArray, beta: FloatArray) -> Iterator[str]:
        """What does not agree of parameters that a question is asked at."""
        size = (self.baseline_size,)
        yield from shaped("alpha", alpha, size, "one for each number of the baseline")
        yield from shaped("beta", beta, (self.parameters,), self.predictor.one_for_each)

    def prepared(self, cohort: Cohort) -> PreparedPatients:
        """The cohort ready to be summed over, made at the first question and kept."""
        prepared = self._prepared.get(cohort)
        if prepared is None:
            prepared = self.predictor.prepare(cohort, self)
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

    def cell_gradient(
        self,
        cohort: Cohort,
        pairs: tuple[IntArray, IntArray],
        alpha: FloatArray,
        beta: FloatArray,
    ) -> Derivatives:
        """Loss and gradient of those pairs of study number and interval that are cells here."""
        chosen = self.cells(cohort).among(*pairs)
        return self.predictor.cell_gradient(cohort, self, chosen, alpha, beta)

    def risk(self, cohort: Cohort, beta: FloatArray) -> FloatArray:
        """φ of each patient, the mean over slides where there are several: (patients,)."""
        return self.predictor.risk(cohort, self, beta)

    def scored(self, cohort: Cohort, beta: FloatArray) -> PreparedPatients:
        """The cohort with its risk at β as the one covariate, kept for the last β."""
        kept = self._scored.get(cohort)
        if kept is not None and np.array_equal(kept[0], beta):
            return kept[1]
        risk = self.risk(cohort, beta)
        patients = Cohort(risk[:, None], cohort.time, cohort.event, cohort.number)
        placed = self.placed(cohort)
        prepared = prepare_placed(patients, placed, self.intervals, Scaling.none(1), self.link)
        self._scored[cohort] = beta.copy(), prepared
        return prepared
