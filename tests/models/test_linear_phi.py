"""A network that is linear, trained on all patients, ends where the linear model's fit does."""

from __future__ import annotations

import numpy as np
import pytest
import statsmodels.api as sm
from scipy.optimize import minimize
from torch import Tensor, nn

from fedcox.models.architecture import AbstractArchitecture, OwnModule, Perceptron
from fedcox.models.neural import NeuralModel
from fedcox.models.predictors.network import NetworkLink
from fedcox.survival.bags import Bags, SlideArray
from fedcox.survival.cohort import Cohort, FloatArray
from fedcox.survival.time_grid import CensoredInterval, Pieces, TimeGrid
from tests.models.network_examples import GRIDS, placed
from tests.problems import READINGS, simulated
from tests.stacked_glm import GLM_LINKS, binomial_glm, by_pieces, by_width, design, poisson_glm

COHORT = simulated(150)
WIDTH, HORIZON = 25.0, 100.0


class MeanOfTiles(nn.Module):
    """Linear in the mean of a bag."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 1, bias=False)

    def forward(self, bag: Tensor) -> Tensor:
        score: Tensor = self.layer(bag.mean(0))
        return score


def trained(
    architecture: AbstractArchitecture,
    cohort: Cohort,
    link: NetworkLink,
    reading: CensoredInterval,
    event_weight: float = 1.0,
) -> tuple[FloatArray, FloatArray]:
    """θ and α where the gradient over all patients vanishes."""
    grid = GRIDS[link]
    model = NeuralModel(architecture, link, grid.intervals, event_weight, precision="float64")
    patients = model.lay_out(cohort, placed(cohort, reading, link))

    def loss(point: FloatArray) -> tuple[float, FloatArray]:
        found = model.gradient(point[:3], point[3:], patients)
        return found.loss, np.concatenate([found.beta, found.alpha])

    start = np.concatenate([np.zeros(3), np.full(grid.intervals, -1.0)])
    end = minimize(
        loss,
        start,
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 2000, "ftol": 0.0, "gtol": 1e-10, "maxcor": 30},
    )
    assert np.abs(end.jac).max() < 1e-5
    return end.x[:3], end.x[3:]


@pytest.mark.parametrize("link", GLM_LINKS)
@pytest.mark.parametrize("reading", READINGS)
def test_a_linear_network_reaches_the_optimum_of_statsmodels(
    link: NetworkLink, reading: CensoredInterval
) -> None:
    rows = by_width(
        COHORT.time.tolist(), COHORT.event.tolist(), WIDTH, reading, horizon=HORIZON
    )
    wanted = binomial_glm(rows, COHORT.covariates, link)
    theta, alpha = trained(Perceptron(3, ()), COHORT, link, reading)
    assert theta == pytest.approx(wanted.coef, abs=1e-6)
    assert alpha[wanted.informative] == pytest.approx(wanted.alpha, abs=1e-6)


@pytest.mark.parametrize("event_weight", [1.0, 6.0])
def test_with_exact_time_it_reaches_the_optimum_of_statsmodels(event_weight: float) -> None:
    pieces = GRIDS["log"]
    assert isinstance(pieces, Pieces)
    rows = by_pieces(
        COHORT.time.tolist(), COHORT.event.tolist(), pieces.bounds.tolist(), unit=1.0
    )
    wanted = poisson_glm(rows, COHORT.covariates, event_weight)
    theta, alpha = trained(Perceptron(3, ()), COHORT, "log", "include", event_weight)
    assert np.concatenate([alpha, theta]) == pytest.approx(wanted, abs=1e-6)
    # Weighted events move the baseline and nothing else.
    plain = poisson_glm(rows, COHORT.covariates)
    plain[: alpha.size] += np.log(event_weight)
    assert np.concatenate([alpha, theta]) == pytest.approx(plain, abs=1e-6)


@pytest.mark.parametrize("link", GLM_LINKS)
def test_balanced_it_reaches_the_optimum_with_weighted_events(link: NetworkLink) -> None:
    rows = by_width(
        COHORT.time.tolist(), COHORT.event.tolist(), WIDTH, "include", horizon=HORIZON
    )
    matrix, response, weight = design(rows, COHORT.covariates)
    glm = sm.GLM(
        response,
        matrix,
        family=sm.families.Binomial(GLM_LINKS[link]()),
        freq_weights=weight * np.where(response > 0, 6.0, 1.0),
    )
    wanted = glm.fit(tol=1e-11, tol_criterion="params", maxiter=200).params
    theta, alpha = trained(Perceptron(3, ()), COHORT, link, "include", 6.0)
    assert np.concatenate([alpha, theta]) == pytest.approx(wanted, abs=1e-6)


def test_linear_in_the_mean_of_a_bag_it_is_the_linear_model_of_these_means() -> None:
    rng = np.random.default_rng(0)
    bags, means = [], []
    some = COHORT.take(np.arange(50))
    for row in some.covariates:
        tiles = (row + rng.normal(size=(rng.integers(1, 30), 3))).astype(np.float32)
        bags.append((SlideArray(tiles),))
        means.append(tiles.astype(np.float64).mean(axis=0))
    cohort = Cohort(
        np.empty((some.patients, 0)), some.time, some.event, bags=Bags(tuple(bags), 3)
    )
    rows = by_width(some.time.tolist(), some.event.tolist(), WIDTH, "include", horizon=HORIZON)
    wanted = binomial_glm(rows, np.array(means), "logit")
    own = OwnModule("mean of tiles", "bags", MeanOfTiles)
    theta, _ = trained(own, cohort, "logit", "include")
    assert theta == pytest.approx(wanted.coef, abs=1e-6)


def test_a_million_cells_fit_in_blocks() -> None:
    """The logit's pairs of sample and interval are never all there at once."""
    model = NeuralModel(Perceptron(1, ()), "logit", 5000, precision="float64")
    time = np.linspace(1.0, 5000.0, 1200)
    cohort = Cohort(np.zeros((1200, 1)), time, np.ones(1200, dtype=np.bool_))
    grid = TimeGrid.regular(1.0, 5000.0)
    patients = model.lay_out(cohort, grid.at_risk(time, cohort.event, "include"))
    found = model.gradient(np.zeros(1), np.zeros(5000), patients)
    cells = np.ceil(time - 1e-9).sum()
    assert found.loss == pytest.approx(cells * np.log(2.0), rel=1e-12)
