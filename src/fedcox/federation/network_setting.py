"""What is agreed before a network is trained and stays the same in every round of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from fedcox.errors import CohortError
from fedcox.federation.query import Agreed
from fedcox.federation.setting import Setting
from fedcox.models.architecture import AbstractArchitecture
from fedcox.models.network_choices import Precision, SlideWeight
from fedcox.models.torch_extra import check_torch
from fedcox.survival.bounds import positive, shaped
from fedcox.survival.cohort import Cohort, FloatArray, IntArray
from fedcox.survival.preparation import PreparedPatients, prepare_placed
from fedcox.survival.scaling import Scaling

if TYPE_CHECKING:
    from fedcox.models.network_patients import NetworkPatients
    from fedcox.models.neural import NeuralModel

_NOBODY = -1


@dataclass(frozen=True, eq=False)
class NetworkSetting(Agreed):
    """Time, link and scale as `timing` says, the network, and how its samples are weighed.

    The network sees every column of a table, those that `timing` left out of its scale as
    zeros. `event_weight` multiplies the loss of cells with the event. A center gets all this
    once and lays its patients out by it; on which device it computes is its own matter, and no
    part of what is agreed.
    """

    timing: Setting
    architecture: AbstractArchitecture
    event_weight: float = 1.0
    slide_weight: SlideWeight = "slide"
    precision: Precision = "float32"
    _device: str = "cpu"
    _laid_out: WeakKeyDictionary[Cohort, Any] = field(
        default_factory=WeakKeyDictionary, repr=False
    )
    _rows: WeakKeyDictionary[Cohort, IntArray] = field(
        default_factory=WeakKeyDictionary, repr=False
    )
    _scored: WeakKeyDictionary[Cohort, tuple[FloatArray, PreparedPatients]] = field(
        default_factory=WeakKeyDictionary, repr=False
    )

    @property
    def intervals(self) -> int:
        """How many intervals are fitted."""
        return self.timing.intervals

    @property
    def numbers(self) -> int:
        """How many numbers describe it: the setting, and a few for the network's form."""
        return self.timing.numbers + 8

    def faults(self, columns: int | None) -> Iterator[str]:
        """A weight multiplies."""
        yield from positive("event_weight", self.event_weight)

    def point_faults(self, theta: FloatArray, alpha: FloatArray) -> Iterator[str]:
        """What does not agree of parameters that a question is asked at."""
        yield from shaped("theta", theta, (self.parameters,), "one for each weight")
        yield from shaped("alpha", alpha, (self.intervals,), "one for each fitted interval")

    @cached_property
    def parameters(self) -> int:
        """How many numbers θ has."""
        check_torch()
        from fedcox.models.flat_parameters import size

        return size(self.architecture)

    @cached_property
    def model(self) -> NeuralModel:
        """The network, ready to compute."""
        check_torch()
        from fedcox.models.neural import NeuralModel

        return NeuralModel(
            self.architecture,
            self.timing.link.name,  # type: ignore[arg-type]
            self.intervals,
            event_weight=self.event_weight,
            slide_weight=self.slide_weight,
            precision=self.precision,
            device=self._device,
        )

    def started(self, seed: int) -> FloatArray:
        """Fresh weights θ: the same seed gives the same bits."""
        check_torch()
        from fedcox.models.flat_parameters import start

        return start(self.architecture, seed)

    def laid_out(self, cohort: Cohort) -> NetworkPatients:
        """The cohort as the network reads it, made at the first question and kept."""
        found: NetworkPatients | None = self._laid_out.get(cohort)
        if found is None:
            found = self._laid_out[cohort] = self._lay_out(cohort)
        return found

    def _lay_out(self, cohort: Cohort) -> NetworkPatients:
        inputs = self.architecture.inputs
        if inputs != "table" and cohort.bags is None:
            raise CohortError(
                "The network reads slides, and these patients have none.",
                ["Give every cohort its bags, or take a network that reads tables."],
            )
        scaled = None if inputs == "bags" else self._scaled(cohort)
        return self.model.lay_out(cohort, self.timing.placed(cohort), scaled)

    def _scaled(self, cohort: Cohort) -> FloatArray:
        """Every column on the common scale; those left out of it, being constant, are zero."""
        scaling = self.timing.scaling
        scaled = np.zeros((cohort.patients, cohort.columns))
        kept = np.empty((cohort.patients, scaling.keep.size))
        scaling.apply(cohort.covariates, out=kept, complete=cohort.complete)
        scaled[:, scaling.keep] = kept
        return scaled

    def rows(self, cohort: Cohort, numbers: IntArray) -> IntArray:
        """Rows of those of these study numbers who are here, each as often as it is named."""
        row_of = self._rows.get(cohort)
        if row_of is None:
            # One more entry, to which every number beyond the largest here is clipped.
            row_of = np.full(int(cohort.number.max(initial=-1)) + 2, _NOBODY)
            row_of[cohort.number] = np.arange(cohort.patients)
            self._rows[cohort] = row_of
        found = row_of.take(numbers, mode="clip")
        here: IntArray = found[found != _NOBODY]
        return here

    def cells(
        self, cohort: Cohort, numbers: IntArray, intervals: IntArray
    ) -> tuple[IntArray, IntArray]:
        """Rows and intervals of those pairs of number and interval that are cells here."""
        chosen = self.timing.cells(cohort).among(numbers, intervals)
        return chosen.patient, chosen.interval

    def scored(self, cohort: Cohort, theta: FloatArray) -> PreparedPatients:
        """The cohort with the network's risk as its one covariate, kept for the last θ.

        A patient with several slides has their mean.
        """
        kept = self._scored.get(cohort)
        if kept is not None and np.array_equal(kept[0], theta):
            return kept[1]
        risk = self.risk(cohort, theta)
        patients = Cohort(risk[:, None], cohort.time, cohort.event, cohort.number)
        prepared = prepare_placed(
            patients,
            self.timing.placed(cohort),
            self.intervals,
            Scaling.none(1),
            self.timing.link,
        )
        self._scored[cohort] = theta.copy(), prepared
        return prepared

    def risk(self, cohort: Cohort, theta: FloatArray) -> FloatArray:
        """The mean of each patient's slide scores; of a table, the score: (patients,)."""
        if not cohort.patients:
            return np.empty(0)
        scores = self.model.slide_scores(theta, self.laid_out(cohort))
        return np.array([float(own.mean()) for own in scores])
