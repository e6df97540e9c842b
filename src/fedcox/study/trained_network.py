"""What a network's training gives back: scores of slides, risks and survival of patients.

`FittedStudy` has the table of coefficients that a network cannot have, and belongs to a study
file; its fit.json is read by people. So they share rows and notices, not the class or the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from fedcox.errors import InputError
from fedcox.federation.ledger import LedgerRow
from fedcox.federation.setting import Setting
from fedcox.models.architecture import AbstractArchitecture
from fedcox.models.predictors.network import Network, network_of, of_network
from fedcox.solvers.training import EpochLoss
from fedcox.study.fit_rows import Guarantee, Notice
from fedcox.survival.bags import Bags, SlideFeatures, TileFeatures
from fedcox.survival.cohort import Cohort, FloatArray
from fedcox.survival.survival_curve import PiecewiseHazard, places_of_ends, survival
from fedcox.survival.time_grid import Pieces

PatientScore = Literal["mean", "max", "concat"]


@dataclass(frozen=True, eq=False)
class TrainingRecord:
    """How a training went. Counts are None where they would break a guarantee.

    `best` is the epoch, or round of averaging, whose parameters were kept.
    """

    centers: tuple[str, ...]
    patients: int | None
    events: int | None
    epochs: tuple[EpochLoss, ...]
    best: int
    rounds: int
    bytes_up: int
    bytes_down: int
    guarantee: Guarantee | None
    notices: tuple[Notice, ...]
    versions: Mapping[str, str]
    ledger: tuple[LedgerRow, ...]


@dataclass(frozen=True, eq=False)
class TrainedNetwork:
    """What `fedcox.train_network` found: a network as risk φ, and the baseline beside it.

        S(t | x) = exp(−Λ(t) · exp(slope · φ(x)))        with the link "log", and
        Λ(t) the sum of exp(α_k) over the pieces up to t, the last one in part

    theta       the network's weights
    alpha       the baseline α_k of every piece or interval; −inf where nobody had the event,
                +inf where everyone at risk had
    slope       one, but after training with label weights, which it puts right: risks and
                scores are multiplied by it, and so are those of the curves
    setting     what centers agreed on: grid, link, scale, network
    record      how training went: patients, epochs, notices, ledger; None for a network from a
                file. `facts` are JSON values that go with it there and back

    The baseline is fitted without label weights, so curves are those of the patients; but under
    noise it is what training left.

    >>> import numpy as np
    >>> import fedcox
    >>> rng = np.random.default_rng(1)
    >>> cohort = fedcox.Cohort(rng.normal(size=(90, 2)), rng.exponential(9, 90), np.ones(90))
    >>> plan = fedcox.NetworkPlan(fedcox.Perceptron(2), solver=fedcox.NetworkAdam(epochs=2))
    >>> trained = fedcox.train_network(plan, fedcox.InProcess.from_cohorts({"A": cohort}))
    >>> trained.risk(cohort).shape  # the log risk of each patient, higher is worse
    (90,)
    >>> trained.survival(cohort, times=[0, 5]).shape  # (patients, times)
    (90, 2)

    Next: `slide_scores` for single slides; `save` and `load` for one file without code.
    """

    setting: Setting
    theta: FloatArray
    alpha: FloatArray
    slope: float = 1.0
    record: TrainingRecord | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def architecture(self) -> AbstractArchitecture:
        """Which network φ is."""
        return self.network.architecture

    @property
    def network(self) -> Network:
        """The predictor of the setting."""
        return network_of(self.setting.predictor)

    @property
    def link(self) -> str:
        """The link's name: "log", "cloglog" or "logit"."""
        return self.setting.link.name

    @property
    def edges(self) -> FloatArray:
        """Where the pieces or intervals end: (intervals,), in the unit of time."""
        return self.setting.grid.edges

    def on(self, device: str) -> TrainedNetwork:
        """The same network, computing on another device."""
        moved = self.setting.with_predictor(self.network.on(device))
        return replace(self, setting=moved)

    def with_facts(self, **facts: Any) -> TrainedNetwork:
        """The same network, with more to be told in its file."""
        return replace(self, facts={**self.facts, **facts})

    def save(self, path: str | Path) -> None:
        """Write one safetensors file, whole or not at all."""
        from fedcox.study.trained_network_file import write_trained

        write_trained(path, self)

    @classmethod
    def load(
        cls,
        path: str | Path,
        architecture: AbstractArchitecture | None = None,
        device: str = "cpu",
    ) -> TrainedNetwork:
        """Read such a file; a module of one's own is given as `architecture`."""
        from fedcox.study.trained_network_file import read_trained

        return read_trained(path, architecture, device)

    def slide_scores(self, cohort: Cohort) -> list[FloatArray]:
        """For each patient the score of every slide, or the one score of a table's row.

        They are on the scale of the linear predictor, as risks are.
        """
        scores = of_network(self.setting.prepared(cohort)).slide_scores(self.theta)
        return [self.slope * own for own in scores]

    def risk(self, cohort: Cohort, patient_score: PatientScore = "mean") -> FloatArray:
        """The log risk of each patient, (patients,); higher is worse.

        Of several slides it is the mean of their scores (the paper's way), the largest ("max"),
        or the score of all their tiles as one slide ("concat").
        """
        if patient_score not in get_args(PatientScore):
            raise InputError(
                f"A patient's score is mean, max or concat of slides; found {patient_score!r}."
            )
        if patient_score == "concat" and cohort.bags is not None:
            cohort = _with_bags(cohort, _as_one_slide(cohort.bags))
        of_slides = np.max if patient_score == "max" else np.mean
        return np.array([float(of_slides(own)) for own in self.slide_scores(cohort)])

    def survival(
        self,
        cohort: Cohort,
        patient_score: PatientScore = "mean",
        times: ArrayLike | None = None,
    ) -> FloatArray:
        """The chance to be free of the event at `times`, or at each of `edges`.

        (patients, times). With the link "log" it follows the model between the edges and is NaN
        beyond the horizon; the other links group time, and know it at the edges alone.
        """
        risk, grid = self.risk(cohort, patient_score), self.setting.grid
        if isinstance(grid, Pieces):
            baseline = PiecewiseHazard(grid.bounds, np.exp(self.alpha) / grid.widths)
            at = grid.edges if times is None else np.asarray(times, dtype=np.float64)
            return baseline.survival(risk, at)
        curves = survival(self.alpha, risk, link=self.setting.link)
        if times is None:
            return curves
        return curves[:, places_of_ends(grid.edges, times, link=self.link)]


@dataclass(frozen=True, eq=False)
class _OneSlide:
    """All slides of a patient as if they were one."""

    slides: tuple[SlideFeatures, ...]

    @property
    def shape(self) -> tuple[int, int]:
        return sum(slide.shape[0] for slide in self.slides), self.slides[0].shape[1]

    def read(self) -> TileFeatures:
        joined: TileFeatures = np.concatenate([slide.read() for slide in self.slides])
        return joined


def _as_one_slide(bags: Bags) -> Bags:
    return Bags(tuple((_OneSlide(own),) for own in bags.slides), bags.features)


def _with_bags(cohort: Cohort, bags: Bags) -> Cohort:
    """The same patients with other slides."""
    return Cohort(cohort.covariates, cohort.time, cohort.event, cohort.number, bags)
