"""The one-pass form of the slide model against its own module and autograd."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedcox.models import tile_scorer
from fedcox.models.architecture import TileScorer, TileScorerWithTable
from fedcox.models.modules import assign, build, start, trainable
from fedcox.models.neural import NeuralModel
from fedcox.models.tile_scorer import (
    HiddenLayer,
    ScoredMeans,
    TileScorerWeights,
    slide_means,
    tile_scores,
)
from fedcox.survival.bags import Bags, SlideArray
from fedcox.survival.cohort import Cohort
from tests.models.network_examples import gap


def phi_and_jacobian(
    bag: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor,
    score: torch.Tensor,
    slope: float = 0.1,
) -> tuple[torch.Tensor, torch.Tensor]:
    """One reading of the tiles, with products in the precision of `weight`."""
    weights = TileScorerWeights(weight, bias, score, score.new_empty(0), slope)
    layer = HiddenLayer.of(weights, weight.dtype)
    means = slide_means(layer, iter([bag]), 1, weight.dtype)
    exact = TileScorerWeights(
        weight.double(), bias.double(), score.double(), score.new_empty(0).double(), slope
    )
    scored = ScoredMeans(exact, means, exact.table.new_empty((1, 0)))
    return scored.phi[0], scored.jacobian()[0]


def by_autograd(
    architecture: TileScorer,
    theta: np.ndarray[tuple[int], np.dtype[np.float64]],
    bag: torch.Tensor,
) -> tuple[float, np.ndarray[tuple[int], np.dtype[np.float64]]]:
    module = build(architecture).double()
    assign(module, theta)
    score = module(bag.double())
    slopes = torch.autograd.grad(score, [parameter for _, parameter in trainable(module)])
    return float(score.detach()), torch.cat([slope.reshape(-1) for slope in slopes]).numpy()


@settings(max_examples=30)
@given(
    tiles=st.integers(1, 40),
    hidden=st.integers(1, 9),
    slope=st.sampled_from([0.0, 0.1, 0.5]),
    most=st.integers(1, 50),
    seed=st.integers(0, 10**6),
)
def test_one_reading_gives_phi_and_its_exact_gradient(
    tiles: int, hidden: int, slope: float, most: int, seed: int
) -> None:
    architecture = TileScorer(5, hidden, slope)
    theta = start(architecture, seed)
    rng = np.random.default_rng(seed)
    bag = torch.tensor(rng.normal(size=(tiles, 5)))
    parts = torch.split(torch.tensor(theta), [5 * hidden, hidden, hidden])
    original, tile_scorer._TILES = tile_scorer._TILES, most
    try:
        phi, jacobian = phi_and_jacobian(
            bag, parts[0].reshape(hidden, 5), parts[1], parts[2], slope
        )
    finally:
        tile_scorer._TILES = original
    wanted_phi, wanted = by_autograd(architecture, theta, bag)
    assert float(phi) == pytest.approx(wanted_phi, rel=1e-12, abs=1e-13)
    assert gap(jacobian.numpy(), wanted) <= 1e-12


def test_in_float32_a_full_bag_is_within_rounding_of_float64() -> None:
    architecture = TileScorer(256, 128)
    theta = start(architecture, 0)
    rng = np.random.default_rng(0)
    bag = torch.tensor(rng.normal(0.5, 1.0, (5000, 256)).astype(np.float16))
    weight, bias, score = torch.split(
        torch.tensor(theta, dtype=torch.float32), [256 * 128, 128, 128]
    )
    phi, jacobian = phi_and_jacobian(bag, weight.reshape(128, 256), bias, score)
    rounded = torch.cat([weight, bias, score]).double().numpy()
    wanted_phi, wanted = by_autograd(architecture, rounded, bag)
    assert float(phi) == pytest.approx(wanted_phi, rel=2e-6)
    assert gap(jacobian.numpy(), wanted) <= 2e-6


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize(
    "architecture", [TileScorer(12, 16), TileScorerWithTable(12, 2, 16, 0.3)]
)
def test_the_mean_of_the_tile_scores_is_the_slides_score(
    dtype: type[np.floating], architecture: TileScorer | TileScorerWithTable
) -> None:
    rng = np.random.default_rng(4)
    theta = start(architecture, 4)
    bag = rng.normal(size=(5000, 12)).astype(dtype)
    cohort = Cohort(
        np.zeros((1, 2)),
        np.array([1.0]),
        np.array([True]),
        bags=Bags(((SlideArray(bag),),), 12),
    )
    scores = tile_scores(bag, architecture, theta)
    assert scores.shape == (5000,)
    for precision, tolerance in (("float64", 1e-12), ("float32", 1e-5)):
        model = NeuralModel(architecture, "logit", 1, precision=precision)  # type: ignore[arg-type]
        (slide,) = model.slide_scores(theta, model.lay_out(cohort, None))
        assert slide == pytest.approx([scores.mean()], rel=tolerance)


def test_a_tile_score_by_hand() -> None:
    architecture = TileScorer(2, 2, 0.1)
    theta = np.array([1.0, 0.0, 0.0, 2.0, 0.5, -1.0, 3.0, 10.0])  # W, b, w
    scores = tile_scores(np.array([[1.0, 1.0], [-2.5, 0.0]], np.float32), architecture, theta)
    # unit 1: 1.5 and leaky(−2) = −0.2; unit 2: 1 and leaky(−1) = −0.1
    assert scores == pytest.approx([3 * 1.5 + 10 * 1.0, 3 * -0.2 + 10 * -0.1])
