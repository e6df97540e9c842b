"""Simulated patients with slides, and ways to split them, that tests of networks draw from."""

from __future__ import annotations

from functools import cache
from typing import Literal

import numpy as np

from fedcox.federation.setting import Setting
from fedcox.models.architecture import (
    AbstractArchitecture,
    Perceptron,
    TileScorer,
    TileScorerWithTable,
)
from fedcox.models.predictors.network import Network
from fedcox.survival.bags import Bags, SlideArray
from fedcox.survival.cohort import Cohort, IntArray
from fedcox.survival.link import LINKS
from fedcox.survival.scaling import Scaling
from fedcox.survival.time_grid import AnyGrid, CensoredInterval, Pieces, TimeGrid

FEATURES, COLUMNS, PATIENTS = 5, 3, 60
GRID = TimeGrid.regular(25.0, 150.0)
PIECES = Pieces(np.array([0.0, 20.0, 45.0, 60.0, 80.0, 110.0, 150.0]), unit=1.0)
Kind = Literal["table", "bags", "both"]
KINDS: tuple[Kind, ...] = ("table", "bags", "both")
NETWORKS: dict[Kind, AbstractArchitecture] = {
    "table": Perceptron(COLUMNS, (4,)),
    "bags": TileScorer(FEATURES, 4),
    "both": TileScorerWithTable(FEATURES, COLUMNS, 4),
}


def with_slides(patients: int = PATIENTS, seed: int = 0) -> Cohort:
    """Simulated patients of one to three slides; a share of planted tiles raises the hazard."""
    rng = np.random.default_rng(seed)
    covariates = rng.normal(size=(patients, COLUMNS))
    planted = rng.uniform(0.0, 1.0, patients)
    slides = []
    for share in planted:
        own = []
        for _ in range(int(rng.integers(1, 4))):
            tiles = rng.normal(size=(int(rng.integers(2, 9)), FEATURES))
            tiles[rng.random(len(tiles)) < share, 0] += 2.0
            own.append(SlideArray(tiles.astype(np.float32)))
        slides.append(tuple(own))
    log_risk = 4.0 * planted - 2.0 + covariates @ np.linspace(-0.5, 0.5, COLUMNS)
    event_time = 250.0 * rng.exponential(size=patients) * np.exp(-log_risk)
    censoring = rng.uniform(50.0, 300.0, patients)
    time = np.ceil(np.minimum(event_time, censoring))
    bags = Bags(tuple(slides), FEATURES)
    return Cohort(covariates, time, event_time <= censoring, bags=bags)


@cache
def patients() -> Cohort:
    """Sixty simulated patients."""
    return with_slides()


def split_up(cohort: Cohort, center: IntArray, centers: int) -> dict[str, Cohort]:
    """Centers 0 … centers − 1 with slides; some may be empty. Patients keep their numbers."""
    parts = {}
    for k in range(centers):
        rows = np.flatnonzero(center == k)
        part = cohort.take(rows)
        if not rows.size:  # a center without a patient need not know about slides
            part = Cohort(part.covariates, part.time, part.event, part.number)
        parts[f"center {k:02d}"] = part
    return parts


def uneven(total: int = PATIENTS, seed: int = 1) -> tuple[IntArray, int]:
    """Five centers: one with most patients, one with one, one with none."""
    center = np.random.default_rng(seed).choice(3, size=total, p=[0.7, 0.2, 0.1])
    center[7] = 3
    return center, 5


def network_setting(
    kind: Kind = "bags",
    *,
    link: str = "cloglog",
    reading: CensoredInterval = "include",
    event_weight: float = 1.0,
    slide_weight: Literal["slide", "patient"] = "slide",
    precision: Literal["float32", "float64", "bfloat16"] = "float64",
) -> Setting:
    """On every interval of the grid, with a public scale."""
    scaling = Scaling(np.arange(COLUMNS), np.full(COLUMNS, 0.1), np.full(COLUMNS, 1.5))
    grid: AnyGrid = GRID if LINKS[link].grouped else PIECES
    active = np.ones(grid.intervals, dtype=np.bool_)
    network = Network(NETWORKS[kind], event_weight, slide_weight, precision)
    return Setting(grid, active, reading, LINKS[link], scaling, predictor=network)


def split_choices(draw_seed: int, total: int = PATIENTS) -> tuple[IntArray, int]:
    """A center for each patient: 1 to 12 centers, from even to nearly all patients in one."""
    rng = np.random.default_rng(draw_seed)
    centers = int(rng.integers(1, 13))
    evenness = rng.choice([0.05, 0.3, 2.0, 50.0])
    return rng.choice(centers, size=total, p=rng.dirichlet(np.full(centers, evenness))), centers
