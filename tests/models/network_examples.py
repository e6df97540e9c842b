"""Simulated patients with tables and slides, modules of every kind, and the stacked loss."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from fedcox.models.architecture import (
    AbstractArchitecture,
    OwnModule,
    Perceptron,
    TileScorer,
    TileScorerWithTable,
)
from fedcox.models.modules import assign, build, trainable
from fedcox.models.neural import NeuralModel
from fedcox.models.predictors.network import NetworkLink
from fedcox.survival.bags import Bags, SlideArray
from fedcox.survival.cohort import Cohort, FloatArray
from fedcox.survival.person_periods import stack
from fedcox.survival.time_at_risk import TimeAtRisk
from fedcox.survival.time_grid import AnyGrid, CensoredInterval, Pieces, TimeGrid
from tests.problems import READINGS

COLUMNS, FEATURES = 3, 6
GRID = TimeGrid.regular(25.0, 100.0)
GRIDS: dict[NetworkLink, AnyGrid] = {
    "log": Pieces(np.array([0.0, 12.0, 30.0, 70.0, 100.0]), unit=1.0),
    "cloglog": GRID,
    "logit": GRID,
}
LINKS = tuple(GRIDS)
#: A hazard constant within pieces has no reading of censored intervals.
LINK_READINGS: list[tuple[NetworkLink, CensoredInterval]] = [
    (link, reading)
    for link, grid in GRIDS.items()
    for reading in READINGS
    if grid.grouped or reading == "include"
]


def placed(
    cohort: Cohort, reading: CensoredInterval = "include", link: NetworkLink = "logit"
) -> TimeAtRisk:
    return GRIDS[link].at_risk(cohort.time, cohort.event, reading)


def patients_with_slides(
    patients: int = 14, seed: int = 0, dtype: type[np.floating] = np.float32
) -> Cohort:
    """Simulated: each patient has a row, and one to three slides of 1 to 12 tiles."""
    rng = np.random.default_rng(seed)
    slides = tuple(
        tuple(
            SlideArray(rng.normal(size=(rng.integers(1, 13), FEATURES)).astype(dtype))
            for _ in range(rng.integers(1, 4))
        )
        for _ in range(patients)
    )
    return Cohort(
        rng.normal(size=(patients, COLUMNS)),
        np.ceil(rng.uniform(0.0, 120.0, patients)),
        rng.random(patients) < 0.6,
        bags=Bags(slides, FEATURES),
    )


class Attention(nn.Module):
    """Someone's own: attention over the tiles of a bag."""

    def __init__(self) -> None:
        super().__init__()
        self.look = nn.Linear(FEATURES, 1)
        self.value = nn.Sequential(nn.Linear(FEATURES, 4), nn.Tanh(), nn.Linear(4, 1))

    def forward(self, bag: Tensor) -> Tensor:
        score: Tensor = (torch.softmax(self.look(bag), 0) * self.value(bag)).sum()
        return score


class Both(nn.Module):
    """Someone's own: the best tile, scaled by the patient's row."""

    def __init__(self) -> None:
        super().__init__()
        self.tile = nn.Linear(FEATURES, 1)
        self.row = nn.Linear(COLUMNS, 1)
        self.unused = nn.Parameter(torch.ones(2))

    def forward(self, row: Tensor, bag: Tensor) -> Tensor:
        score: Tensor = torch.logsumexp(self.tile(bag), 0) * torch.tanh(self.row(row))
        return score


def _normed() -> nn.Module:
    return nn.Sequential(nn.Linear(COLUMNS, 5), nn.LayerNorm(5), nn.SiLU(), nn.Linear(5, 1))


ARCHITECTURES: dict[str, AbstractArchitecture] = {
    "linear": Perceptron(COLUMNS, ()),
    "perceptron": Perceptron(COLUMNS, (4, 3)),
    "tile scorer": TileScorer(FEATURES, 16),
    "tile scorer with table": TileScorerWithTable(FEATURES, COLUMNS, 8, 0.2),
    "own, of a table": OwnModule("normed", "table", _normed),
    "own, of bags": OwnModule("attention", "bags", Attention),
    "own, of both": OwnModule("both", "both", Both),
}


@dataclass(frozen=True)
class Stacked:
    """Loss and gradient of the paper's stack, by plain torch."""

    loss: float
    theta: FloatArray
    alpha: FloatArray


def stacked(
    model: NeuralModel,
    theta: FloatArray,
    alpha: FloatArray,
    cohort: Cohort,
    reading: CensoredInterval,
) -> Stacked:
    """Every row of the stack goes through the module by itself, and through autograd."""
    dtype = torch.float64 if model.precision == "float64" else torch.float32
    module = build(model.architecture).to(dtype)
    assign(module, theta)
    baseline = torch.tensor(alpha, dtype=dtype, requires_grad=True)
    rows = stack(cohort, GRIDS[model.link], reading)
    scores, weights, repeats = [], [], []
    for place, patient in enumerate(rows.patient.tolist()):
        own = samples(model.architecture, module, cohort, patient, dtype)
        scores += [one() for one in own]
        share = 1 / len(own) if model.slide_weight == "patient" else 1.0
        weights += [share] * len(own)
        repeats += [place] * len(own)
    z = torch.stack(scores) + baseline[torch.tensor(rows.interval[repeats])]
    happened, at_risk = (
        torch.tensor(of_row[repeats], dtype=dtype) for of_row in (rows.event, rows.weight)
    )
    loss = cell_losses(z, happened, at_risk, model.link, model.event_weight)
    total = (torch.tensor(weights, dtype=dtype) * loss).sum()
    parameters = [parameter for _, parameter in trainable(module)]
    slopes = torch.autograd.grad(
        total, [*parameters, baseline], allow_unused=True, materialize_grads=True
    )
    return Stacked(
        float(total.detach()),
        torch.cat([slope.double().reshape(-1) for slope in slopes[:-1]]).numpy(),
        slopes[-1].double().numpy(),
    )


def samples(
    architecture: AbstractArchitecture,
    module: nn.Module,
    cohort: Cohort,
    patient: int,
    dtype: torch.dtype,
) -> list[Callable[[], Tensor]]:
    """phi of each sample of a patient, by the module itself, each time it is called."""
    row = torch.tensor(cohort.covariates[patient], dtype=dtype)
    if architecture.inputs == "table":
        return [lambda: module(row[None]).reshape(())]
    assert cohort.bags is not None
    bags = [torch.tensor(own.read()).to(dtype) for own in cohort.bags.slides[patient]]
    if architecture.inputs == "bags":
        return [lambda bag=bag: module(bag).reshape(()) for bag in bags]  # type: ignore[misc]
    return [lambda bag=bag: module(row, bag).reshape(()) for bag in bags]  # type: ignore[misc]


def cell_losses(
    z: Tensor, happened: Tensor, at_risk: Tensor, link: NetworkLink, event_weight: float
) -> Tensor:
    """Minus the log-likelihood of each row, as a textbook has it."""
    if link == "log":  # Poisson's, with the time at risk as its exposure
        return at_risk * z.exp() - event_weight * happened * z
    if link == "logit":
        weight = torch.tensor(event_weight, dtype=z.dtype)
        return at_risk * binary_cross_entropy_with_logits(
            z, happened, pos_weight=weight, reduction="none"
        )
    rate = z.exp()
    event = -torch.log(-torch.expm1(-rate))
    return at_risk * (event_weight * happened * event + (1 - happened) * rate)


def gap(found: FloatArray, wanted: FloatArray) -> float:
    """The distance of two vectors, relative to the second."""
    return float(np.linalg.norm(found - wanted)) / max(float(np.linalg.norm(wanted)), 1e-300)


def assert_close(found: Tensor, wanted: Tensor, *, rtol: float, atol: float) -> None:
    """As torch's own, which imports half of torch for it."""
    np.testing.assert_allclose(found.detach(), wanted.detach(), rtol=rtol, atol=atol)
