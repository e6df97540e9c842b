"""φ as a network: which one, how it is computed, and patients made ready for it.

Needs torch only when something is computed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from fedcox.errors import CohortError, InputError
from fedcox.models.architecture import AbstractArchitecture, check_torch
from fedcox.models.predictor import AbstractPredictor, TimeAndScale
from fedcox.survival.bounds import positive
from fedcox.survival.cohort import Cohort, FloatArray, IntArray
from fedcox.survival.derivatives import Derivatives, Detail, zero_derivatives
from fedcox.survival.link import AbstractLink
from fedcox.survival.person_periods import CellChoice
from fedcox.survival.preparation import PreparedPatients
from fedcox.survival.scaling import Scaling

if TYPE_CHECKING:
    from fedcox.models.network_patients import NetworkPatients
    from fedcox.models.neural import NeuralModel

SlideWeight = Literal["slide", "patient"]
Precision = Literal["float32", "float64", "bfloat16"]
#: Links whose loss `losses.py` has for torch.
NetworkLink = Literal["log", "cloglog", "logit"]

_NOBODY = -1


def score_precision(precision: Precision) -> Precision:
    """That of scores that are shown: half precision is for the steps of training."""
    return "float32" if precision == "bfloat16" else precision


@dataclass(frozen=True)
class Network(AbstractPredictor):
    """φ(x) is what the architecture's module gives with the weights β.

    It sees every column of a table, those that were left out of the scale as zeros.
    `event_weight` multiplies the loss of cells with the event. On which device a center
    computes is its own matter, and no part of what is agreed.
    """

    architecture: AbstractArchitecture
    event_weight: float = 1.0
    slide_weight: SlideWeight = "slide"
    precision: Precision = "float32"
    _device: str = "cpu"
    _models: dict[tuple[str, int], Any] = field(default_factory=dict, repr=False, compare=False)

    prefix = "network "
    words: ClassVar = {
        "gradient": "the slope of the loss in every weight of a network and every interval",
        "steps": "where training the network on the center's own patients leads",
    }
    has_curvature = False
    one_for_each = "one for each weight"

    @property
    def numbers(self) -> int:
        """A few for its form."""
        return 8

    def faults(self, columns: int | None) -> Iterator[str]:
        """A weight multiplies."""
        yield from positive("event_weight", self.event_weight)

    def parameters(self, columns: int) -> int:
        check_torch()
        from fedcox.models.modules import size

        return size(self.architecture)

    def start(self, columns: int, seed: int) -> FloatArray:
        check_torch()
        from fedcox.models.modules import start

        return start(self.architecture, seed)

    def on(self, device: str) -> Network:
        """The same, computing on another device."""
        return replace(self, _device=device, _models={})

    def model(self, link: AbstractLink, intervals: int) -> NeuralModel:
        """What computes it on so many intervals, made once."""
        model: NeuralModel | None = self._models.get((link.name, intervals))
        if model is None:
            check_torch()
            from fedcox.models.neural import NeuralModel

            model = self._models[link.name, intervals] = NeuralModel(
                self.architecture,
                link.name,  # type: ignore[arg-type]
                intervals,
                event_weight=self.event_weight,
                slide_weight=self.slide_weight,
                precision=self.precision,
                device=self._device,
            )
        return model

    def prepare(self, cohort: Cohort, setting: TimeAndScale) -> PreparedNetwork:
        model = self.model(setting.link, setting.intervals)
        laid_out = None
        # A center without patients need not know about slides.
        if cohort.patients:
            scaled = self._scaled(cohort, setting.scaling)
            laid_out = model.lay_out(cohort, setting.placed(cohort), scaled)
        return PreparedNetwork(model, laid_out, cohort.number)

    def _scaled(self, cohort: Cohort, scaling: Scaling) -> FloatArray | None:
        """Every column on the common scale; those left out of it, being constant, are zero."""
        inputs = self.architecture.inputs
        if inputs != "table" and cohort.bags is None:
            raise CohortError(
                "The network reads slides, and these patients have none.",
                ["Give every cohort its bags, or take a network that reads tables."],
            )
        if inputs == "bags":
            return None
        scaled = np.zeros((cohort.patients, cohort.columns))
        kept = np.empty((cohort.patients, scaling.keep.size))
        scaling.apply(cohort.covariates, out=kept, complete=cohort.complete)
        scaled[:, scaling.keep] = kept
        return scaled

    def cell_gradient(
        self,
        cohort: Cohort,
        setting: TimeAndScale,
        cells: CellChoice,
        alpha: FloatArray,
        beta: FloatArray,
    ) -> Derivatives:
        if not cells.patient.size:
            return zero_derivatives(alpha.size, beta.size, Detail.GRADIENT)
        return of_network(setting.prepared(cohort)).cell_gradient(cells, alpha, beta)

    def risk(self, cohort: Cohort, setting: TimeAndScale, beta: FloatArray) -> FloatArray:
        """The mean of each patient's slide scores; of a table, the score."""
        scores = of_network(setting.prepared(cohort)).slide_scores(beta)
        return np.array([float(own.mean()) for own in scores])


@dataclass(frozen=True, eq=False)
class PreparedNetwork:
    """A cohort laid out for a network, or the `rows` of it in this order; needs no cohort.

    A network is run only where there is somebody to run it for.
    """

    model: NeuralModel
    laid_out: NetworkPatients | None  # everybody; None where there is nobody
    number: IntArray  # (everybody,) in the study
    rows: IntArray | None = None

    @property
    def patients(self) -> int:
        return int((self.number if self.rows is None else self.rows).size)

    def draw(self, numbers: IntArray) -> PreparedNetwork:
        """The patients with these study numbers, each as often and in the order named."""
        rows = self._row_of.take(numbers, mode="clip")
        return PreparedNetwork(self.model, self.laid_out, self.number, rows[rows != _NOBODY])

    @cached_property
    def _row_of(self) -> IntArray:
        # One more entry, to which every number beyond the largest here is clipped.
        row_of = np.full(int(self.number.max(initial=-1)) + 2, _NOBODY)
        row_of[self.number] = np.arange(self.number.size)
        return row_of

    def derivatives(
        self, link: AbstractLink, alpha: FloatArray, beta: FloatArray, detail: Detail
    ) -> Derivatives:
        """Loss and gradient at (α, β), summed over the patients."""
        if detail is not Detail.GRADIENT:
            raise InputError("A network has a gradient and no curvature.")
        if self.laid_out is None or not self.patients:
            return zero_derivatives(alpha.size, beta.size, detail)
        return self.model.gradient(beta, alpha, self.laid_out, self.rows)

    def loss(self, alpha: FloatArray, beta: FloatArray) -> float:
        """The loss alone, which takes half the work."""
        if self.laid_out is None or not self.patients:
            return 0.0
        return self.model.loss(beta, alpha, self.laid_out, self.rows)

    def cell_gradient(
        self, cells: CellChoice, alpha: FloatArray, beta: FloatArray
    ) -> Derivatives:
        """Loss and gradient summed over single cells of patient and interval."""
        if self.laid_out is None:
            return zero_derivatives(alpha.size, beta.size, Detail.GRADIENT)
        return self.model.cell_gradient(
            beta, alpha, self.laid_out, cells.patient, cells.interval
        )

    def slide_scores(self, beta: FloatArray) -> list[FloatArray]:
        """The score of each slide of each patient, or of each row of a table."""
        return [] if self.laid_out is None else self.model.slide_scores(beta, self.laid_out)

    def patient_gradients(
        self, alpha: FloatArray, beta: FloatArray, rows: IntArray
    ) -> Iterator[FloatArray]:
        """The gradient of each of these rows' own loss, β then α, in blocks."""
        if self.laid_out is None:
            return iter(())
        return self.model.patient_gradients(beta, alpha, self.laid_out, rows)


def network_alone(predictor: AbstractPredictor) -> Iterator[str]:
    """A predictor without weights, for what is asked of them."""
    if not isinstance(predictor, Network):
        yield "the setting's predictor must be a network"


def network_of(predictor: AbstractPredictor) -> Network:
    """The predictor, which must be a network."""
    if not isinstance(predictor, Network):
        raise InputError("This is asked of networks alone, and the predictor is none.")
    return predictor


def of_network(prepared: PreparedPatients) -> PreparedNetwork:
    """Patients who are ready for a network, not for another predictor."""
    if not isinstance(prepared, PreparedNetwork):
        raise InputError("This is asked of networks alone, and the predictor is none.")
    return prepared
