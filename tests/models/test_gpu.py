"""On a GPU: the same numbers as on the processor, and the same bits every time."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from fedcox.models import network_patients
from fedcox.models.architecture import AbstractArchitecture, TileScorer, TileScorerWithTable
from fedcox.models.modules import start
from fedcox.models.network_patients import NetworkPatients
from fedcox.models.neural import NeuralModel
from fedcox.models.predictors.network import NetworkLink, Precision
from fedcox.survival.bags import Bags, SlideArray
from fedcox.survival.cohort import Cohort, FloatArray
from tests.models.network_examples import (
    ARCHITECTURES,
    GRID,
    LINKS,
    gap,
    patients_with_slides,
    placed,
)

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

PATIENTS = 20


def many_tiles(features: int) -> Cohort:
    """Simulated: slides of 1 to 700 tiles, stored in half precision."""
    rng = np.random.default_rng(0)
    slides = tuple(
        tuple(
            SlideArray(
                rng.normal(0.3, 1.0, (rng.integers(1, 700), features)).astype(np.float16)
            )
            for _ in range(rng.integers(1, 3))
        )
        for _ in range(PATIENTS)
    )
    return Cohort(
        rng.normal(size=(PATIENTS, 3)),
        np.ceil(rng.uniform(0.0, 120.0, PATIENTS)),
        rng.random(PATIENTS) < 0.6,
        bags=Bags(slides, features),
    )


def found(
    architecture: AbstractArchitecture,
    cohort: Cohort,
    precision: Precision,
    device: str,
    link: NetworkLink = "cloglog",
) -> tuple[FloatArray, float]:
    model = NeuralModel(
        architecture, link, GRID.intervals, 3.0, precision=precision, device=device
    )
    patients = model.lay_out(cohort, placed(cohort, "half", link))
    rows = np.array([1, 4, 4, 7, 2, 0])
    reply = model.gradient(
        start(architecture, 0), np.linspace(-2.0, -1.0, GRID.intervals), patients, rows
    )
    return np.concatenate([reply.beta, reply.alpha]), reply.loss


@pytest.mark.parametrize(
    "architecture", [TileScorer(256, 128), TileScorer(40, 16), TileScorerWithTable(64, 3, 32)]
)
@pytest.mark.parametrize(
    ("precision", "tolerance"), [("float64", 1e-12), ("float32", 1e-5), ("bfloat16", 0.01)]
)
@pytest.mark.parametrize("link", LINKS)
def test_the_slide_model_has_the_gradient_of_the_processor_in_float64(
    architecture: TileScorer | TileScorerWithTable,
    precision: Precision,
    tolerance: float,
    link: NetworkLink,
) -> None:
    cohort = many_tiles(architecture.features)
    wanted, loss = found(architecture, cohort, "float64", "cpu", link)
    gradient, own_loss = found(architecture, cohort, precision, "cuda", link)
    assert gap(gradient, wanted) <= tolerance
    assert own_loss == pytest.approx(loss, rel=tolerance)
    assert np.array_equal(found(architecture, cohort, precision, "cuda", link)[0], gradient)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_every_kind_of_network_runs_there(name: str) -> None:
    cohort = patients_with_slides()
    wanted, loss = found(ARCHITECTURES[name], cohort, "float64", "cpu")
    gradient, own_loss = found(ARCHITECTURES[name], cohort, "float64", "cuda")
    assert gap(gradient, wanted) <= 1e-10
    assert own_loss == pytest.approx(loss, rel=1e-10)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_slides_that_do_not_fit_are_brought_there_a_batch_at_a_time(
    precision: Precision, monkeypatch: pytest.MonkeyPatch
) -> None:
    cohort = many_tiles(64)
    model = NeuralModel(
        TileScorer(64, 32), "logit", GRID.intervals, precision=precision, device="cuda"
    )
    theta, alpha = start(model.architecture, 0), np.full(GRID.intervals, -1.0)
    at_risk = placed(cohort)
    resident = NetworkPatients.of(cohort, at_risk, None, inputs="bags", device="cuda")
    monkeypatch.setattr(network_patients, "_SHARE_OF_GPU", 0.0)
    brought = NetworkPatients.of(cohort, at_risk, None, inputs="bags", device="cuda")
    wanted = model.gradient(theta, alpha, resident)
    assert gap(model.gradient(theta, alpha, brought).beta, wanted.beta) <= 1e-6
    each = np.concatenate(list(model.patient_gradients(theta, alpha, resident)))
    # Single patients' gradients are never in half precision.
    rounding = 0.01 if precision == "bfloat16" else 1e-6
    assert gap(each.sum(axis=0)[: theta.size], wanted.beta) <= rounding
    cells = model.cell_gradient(
        theta,
        alpha,
        resident,
        np.repeat(np.arange(PATIENTS), GRID.intervals),
        np.tile(np.arange(GRID.intervals), PATIENTS),
    )
    assert gap(cells.beta, wanted.beta) <= 1e-6
    whole = model.loss(theta, alpha, resident)
    assert whole == pytest.approx(wanted.loss, rel=0.01)
    assert np.isfinite(model.cox_gradient(theta, resident).beta).all()
