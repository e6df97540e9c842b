"""What a learning scheme is: a model and a way of training it, on patients in centers.

A new scheme is one function in `schemes/` and one row in its table.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import asdict, astuple, dataclass, is_dataclass
from typing import Any, Literal, Protocol

import numpy as np

from fedcox.engines.in_process import InProcess
from fedcox.federation.ledger import Ledger
from fedcox.federation.query import Federation
from fedcox.survival.cohort import Cohort, FloatArray
from fedcox.survival.link import LINKS, AbstractLink, LinkName
from fedcox.survival.scaling import Scaling, linear_predictor
from fedcox.survival.time_grid import CensoredInterval

Ties = Literal["breslow", "efron"]


@dataclass(frozen=True)
class TrainingTraffic:
    """Real messages, counted from the ledger."""

    rounds: int
    bytes_up: int
    bytes_down: int

    @classmethod
    def since(cls, ledger: Ledger, mark: tuple[int, int]) -> TrainingTraffic:
        rows = ledger.since(mark)
        return cls(
            ledger.rounds - mark[0],
            sum(row.bytes_up for row in rows),
            sum(row.bytes_down for row in rows),
        )


@dataclass(frozen=True)
class Recipe:
    """What the schemes of one comparison share; the numbers are the paper's, section 6.1.

    Grouped time has intervals of one `width`; None stands for every distinct event time. Pieces
    have that width too, or `edges`, or end at `every_event`, or there are so many `pieces`;
    with none of these they are cut where the events are, in times recorded in units of
    `resolution`. Nobody learns from follow-up after `horizon`. Batches are drawn with
    replacement over all patients: `batch_size` patients for Cox's loss, `cell_batch_size`
    stacked rows – cells of patient and interval – for hazard models. `balanced` weights events
    of grouped time by the ratio of cells without to cells with an event, over all centers.
    """

    width: float | None = None
    horizon: float | None = None
    link: LinkName = "logit"
    censored_interval: CensoredInterval = "include"
    ridge: float = 0.0
    ties: Ties = "efron"
    balanced: bool = False
    learning_rate: float = 1e-3
    batches: int = 5000
    batch_size: int = 100
    cell_batches: int = 5000
    cell_batch_size: int = 100
    edges: tuple[float, ...] | None = None
    pieces: int | None = None
    every_event: bool = False
    resolution: float | None = None

    def link_of(self, *, grouped: bool) -> AbstractLink:
        """The link if it is of this kind, else the one that stands for the kind."""
        link = LINKS[self.link]
        return link if link.grouped == grouped else LINKS["logit" if grouped else "log"]

    def notes_on(self, link: AbstractLink) -> tuple[str, ...]:
        """What to know where grouped time was not asked for."""
        if not link.grouped or LINKS[self.link].grouped:
            return ()
        at = "every distinct event time" if self.width is None else f"width {self.width:g}"
        return (
            f'DT-FL groups time ({at}, link "{link.name}"), which the link of the study does '
            "not.",
        )


class RiskModel(Protocol):
    """Gives every patient a risk score: higher is worse."""

    def risk(self, covariates: FloatArray) -> FloatArray:
        """(patients, columns) → (patients,); NaN stands for a missing value."""
        ...


@dataclass(frozen=True, eq=False)
class LinearRisk:
    """β·(x − mean), so that a missing value counts as the mean of the training patients."""

    coefficients: FloatArray
    mean: FloatArray

    @classmethod
    def of_scaled(cls, beta: FloatArray, scaling: Scaling, mean: FloatArray) -> LinearRisk:
        """From coefficients of the columns that were fitted, on the common scale."""
        coefficients = np.zeros(mean.size)
        coefficients[scaling.keep] = scaling.coefficients(beta)
        return cls(coefficients, mean)

    def risk(self, covariates: FloatArray) -> FloatArray:
        return linear_predictor(covariates, self.coefficients, mean=self.mean)


@dataclass(frozen=True, eq=False)
class Trained:
    """What a scheme learned: one model, or one for each center that could train its own.

    `notes` says in whole sentences what the reader of the result must know, such as a center
    too small to train on. `rounds` and bytes are those of real messages, zero where patients
    were pooled.
    """

    models: tuple[RiskModel, ...]
    notes: tuple[str, ...] = ()
    rounds: int = 0
    bytes_up: int = 0
    bytes_down: int = 0

    @classmethod
    def since(
        cls,
        mark: tuple[int, int],
        federation: Federation,
        models: tuple[RiskModel, ...],
        notes: Sequence[str] = (),
    ) -> Trained:
        """With the messages of the federation's ledger from `mark` on."""
        traffic = TrainingTraffic.since(federation.ledger, mark)
        return cls(models, tuple(notes), *astuple(traffic))


class AbstractScheme(ABC):
    """One learning scheme."""

    #: As in tables and on the command line, such as "DT-FL".
    name: str
    #: In a sentence without the full stop, for help texts and captions.
    summary: str
    #: Whether it leaves every patient in the own center; the others pool them, for comparison.
    federated: bool
    #: Whether what a federated scheme sends gives single patients away: for experiments only.
    leaks: bool = False

    def check(self) -> None:  # noqa: B027 – most schemes can run anywhere
        """Raise InputError where this scheme cannot run here, such as without its library."""

    def settings(self) -> dict[str, Any]:
        """What this scheme was made with, beside the recipe; ready for JSON."""
        return asdict(self) if is_dataclass(self) else {}

    @abstractmethod
    def train(self, federation: InProcess, recipe: Recipe, seed: int) -> Trained:
        """Train on all patients of the federation; `seed` decides whatever is drawn."""


@dataclass(frozen=True)
class Scheme(AbstractScheme):
    """A scheme with nothing to set but the recipe: `training` is all there is to it."""

    name: str
    summary: str
    training: Callable[[InProcess, Recipe, int], Trained]
    federated: bool = True
    leaks: bool = False

    def settings(self) -> dict[str, Any]:
        return {}

    def train(self, federation: InProcess, recipe: Recipe, seed: int) -> Trained:
        return self.training(federation, recipe, seed)


def pooled(federation: InProcess) -> InProcess:
    """The same patients in one center: what federated schemes are compared with."""
    union = Cohort.joined([center.cohort for center in federation.centers])
    return InProcess.from_cohorts({"all": union})
