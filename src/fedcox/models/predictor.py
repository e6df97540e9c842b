"""What is φ of the model α + φ(x)? One interface: a linear predictor, a network, or another.

A predictor says how many numbers its β has and where they start, and makes a center's patients
ready to be summed over. Nothing above it asks which one it is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar, Protocol

import numpy as np

from fedcox.survival.cohort import Cohort, FloatArray
from fedcox.survival.derivatives import Derivatives
from fedcox.survival.link import AbstractLink
from fedcox.survival.person_periods import CellChoice, SingleCells
from fedcox.survival.preparation import PreparedPatients
from fedcox.survival.scaling import Scaling
from fedcox.survival.time_at_risk import TimeAtRisk


class TimeAndScale(Protocol):
    """What a predictor must know of the setting that it stands in."""

    @property
    def link(self) -> AbstractLink: ...

    @property
    def scaling(self) -> Scaling: ...

    @property
    def intervals(self) -> int:
        """How many intervals are fitted."""
        ...

    def placed(self, cohort: Cohort) -> TimeAtRisk:
        """A cohort on the fitted intervals."""
        ...

    def cells(self, cohort: Cohort) -> SingleCells:
        """A cohort whose single cells can be looked at."""
        ...

    def prepared(self, cohort: Cohort) -> PreparedPatients:
        """What the predictor's `prepare` made of a cohort, kept."""
        ...


class AbstractPredictor(ABC):
    """φ, as a setting names it; its parameters β come with every query."""

    #: Stands before the names of queries about it, by which hospitals allow them.
    prefix: ClassVar[str]
    #: What leaves a hospital, in words, by what is asked: "gradient", "hessian", …, "steps". A
    #: policy must have these names, prefix included; without words are what is not asked.
    words: ClassVar[Mapping[str, str]] = {}
    #: Whether sums over patients have second derivatives, for solvers of second order.
    has_curvature: ClassVar[bool]
    #: What a number of β is for, in the words of whoever misses one.
    one_for_each: ClassVar[str]

    @property
    def numbers(self) -> int:
        """How many numbers describe it."""
        return 0

    @abstractmethod
    def parameters(self, columns: int) -> int:
        """How many numbers β has; `columns` are kept of the patients' covariates."""

    def start(self, columns: int, seed: int) -> FloatArray:
        """Where β begins: the same seed gives the same bits."""
        return np.zeros(self.parameters(columns))

    @abstractmethod
    def prepare(self, cohort: Cohort, setting: TimeAndScale) -> PreparedPatients:
        """The cohort ready for sums of loss and derivatives at any (α, β)."""

    @abstractmethod
    def cell_gradient(
        self,
        cohort: Cohort,
        setting: TimeAndScale,
        cells: CellChoice,
        alpha: FloatArray,
        beta: FloatArray,
    ) -> Derivatives:
        """Loss and gradient summed over single cells of patient and interval."""

    @abstractmethod
    def risk(self, cohort: Cohort, setting: TimeAndScale, beta: FloatArray) -> FloatArray:
        """φ of each patient: (patients,)."""
