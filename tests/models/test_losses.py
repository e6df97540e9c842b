"""The loss without a stack against the stack, at ordinary and at extreme scores."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from lifelines import CoxPHFitter
from torch import Tensor

from fedcox.models import losses as module
from fedcox.models.losses import (
    cell_loss_and_slopes,
    cox_loss,
    loss_and_slopes,
    sample_slopes,
)
from fedcox.models.network_patients import PlacedSamples
from fedcox.models.neural import NeuralModel
from fedcox.models.predictors.network import NetworkLink
from fedcox.survival.cohort import Cohort, FloatArray
from fedcox.survival.derivatives import Detail
from fedcox.survival.link import LINKS as SURVIVAL_LINKS
from fedcox.survival.partial_likelihood import PartialLikelihood
from fedcox.survival.person_periods import PersonPeriods, stack
from fedcox.survival.scaling import Scaling
from fedcox.survival.time_grid import CensoredInterval
from tests.models.network_examples import (
    ARCHITECTURES,
    GRIDS,
    LINK_READINGS,
    LINKS,
    assert_close,
    cell_losses,
    patients_with_slides,
    placed,
)
from tests.problems import simulated

COHORT = simulated(60)
T = GRIDS["log"].intervals


def problem(
    link: NetworkLink, reading: CensoredInterval, seed: int = 0
) -> tuple[Tensor, Tensor, PlacedSamples, PersonPeriods]:
    rng = np.random.default_rng(seed)
    weight = rng.uniform(0.2, 1.5, COHORT.patients)
    phi = torch.tensor(rng.normal(size=COHORT.patients), requires_grad=True)
    alpha = torch.tensor(rng.normal(-1.0, 1.0, T), requires_grad=True)
    rows = stack(COHORT, GRIDS[link], reading)
    samples = PlacedSamples.of(placed(COHORT, reading, link), weight=weight)
    return phi, alpha, samples, rows


def stacked_loss(
    phi: Tensor,
    alpha: Tensor,
    weight: Tensor,
    rows: PersonPeriods,
    link: NetworkLink,
    balance: float,
) -> Tensor:
    patient = torch.tensor(rows.patient)
    z = phi[patient] + alpha[torch.tensor(rows.interval)]
    happened, at_risk = (torch.tensor(own, dtype=z.dtype) for own in (rows.event, rows.weight))
    return (weight[patient] * cell_losses(z, happened, at_risk, link, balance)).sum()


@pytest.mark.parametrize(("link", "reading"), LINK_READINGS)
@pytest.mark.parametrize("balance", [1.0, 30.0])
def test_loss_and_slopes_are_those_of_the_stacked_rows(
    link: NetworkLink,
    reading: CensoredInterval,
    balance: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_CELLS", 7 * T)  # several blocks
    phi, alpha, samples, rows = problem(link, reading)
    wanted = stacked_loss(phi, alpha, samples.weight, rows, link, balance)
    of_phi, of_alpha = torch.autograd.grad(wanted, [phi, alpha])
    found = loss_and_slopes(
        phi.detach(), alpha.detach(), samples, link=link, event_weight=balance
    )
    assert_close(found.loss, wanted.detach(), rtol=1e-12, atol=0)
    assert_close(found.phi, of_phi, rtol=1e-10, atol=1e-12)
    assert_close(found.alpha, of_alpha, rtol=1e-10, atol=1e-12)
    each = sample_slopes(phi, alpha, samples, link=link, event_weight=balance)
    assert_close(each.cost.sum(), wanted, rtol=1e-12, atol=0)
    assert_close(each.alpha.sum(1), of_phi, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("link", "reading"), LINK_READINGS)
def test_some_stacked_rows_cost_what_they_cost_in_the_stack(
    link: NetworkLink, reading: CensoredInterval
) -> None:
    phi, alpha, samples, rows = problem(link, reading)
    chosen = np.random.default_rng(0).integers(rows.patient.size, size=40)  # some twice
    some = PersonPeriods(*(getattr(rows, part)[chosen] for part in vars(rows)))
    wanted = stacked_loss(phi, alpha, samples.weight, some, link, 5.0)
    slopes = torch.autograd.grad(wanted, [phi, alpha])
    cells = torch.tensor(some.patient), torch.tensor(some.interval)
    found = cell_loss_and_slopes(phi, alpha, cells, samples, link=link, event_weight=5.0)
    assert_close(found.loss, wanted, rtol=1e-12, atol=0)
    assert_close(found.phi, slopes[0], rtol=1e-10, atol=1e-12)
    assert_close(found.alpha, slopes[1], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("score", [-50.0, 0.0, 50.0])
@pytest.mark.parametrize("level", [-30.0, 0.0, 30.0])
def test_extreme_scores_give_finite_loss_and_true_slopes(
    link: NetworkLink, dtype: torch.dtype, score: float, level: float
) -> None:
    """Against the numpy link of the linear model, in float64."""
    samples = PlacedSamples(
        torch.tensor([1, 2, 1]),
        torch.tensor([True, False, False]),
        torch.tensor([0.0, 0.0, 0.5], dtype=torch.float64),
        torch.ones(3, dtype=torch.float64),
    )
    alpha = torch.full((3,), level, dtype=dtype)
    phi = torch.full((3,), score, dtype=dtype)
    v = np.exp(np.array([score + level]))
    own = SURVIVAL_LINKS[link]
    passing, event = own.at_risk(v), own.event(v)
    cost = 4.5 * passing.cost[0] + event.cost[0]
    slopes = np.array(
        [
            passing.slope[0] + event.slope[0],
            2 * passing.slope[0],
            1.5 * passing.slope[0],
        ]
    )
    rounding = 2e-5 if dtype == torch.float32 else 1e-12
    for found in (
        loss_and_slopes(phi, alpha, samples, link=link),
        _from_samples(phi, alpha, samples, link),
    ):
        assert float(found[0]) == pytest.approx(cost, rel=rounding, abs=1e-30)
        assert found[1].double().numpy() == pytest.approx(slopes, rel=rounding, abs=1e-15)
        assert bool(torch.isfinite(found[2]).all())


def _from_samples(
    phi: Tensor, alpha: Tensor, samples: PlacedSamples, link: NetworkLink
) -> tuple[Tensor, Tensor, Tensor]:
    terms = sample_slopes(phi, alpha, samples, link=link)
    return terms.cost.sum(), terms.alpha.sum(1), terms.alpha.sum(0)


@settings(max_examples=60)
@given(z=st.floats(-600.0, 6.0))
def test_the_cost_of_an_event_is_exact_over_its_whole_range(z: float) -> None:
    """cloglog: −log(1 − exp(−e^z)), against the link of the linear model."""
    samples = PlacedSamples(
        torch.tensor([0]),
        torch.tensor([True]),
        torch.zeros(1, dtype=torch.float64),
        torch.ones(1, dtype=torch.float64),
    )
    found = loss_and_slopes(
        torch.tensor([z], dtype=torch.float64),
        torch.zeros(1, dtype=torch.float64),
        samples,
        link="cloglog",
    )
    terms = SURVIVAL_LINKS["cloglog"].event(np.exp(np.array([z])))
    assert float(found.loss) == pytest.approx(terms.cost[0], rel=1e-12, abs=1e-15)
    assert float(found.phi[0]) == pytest.approx(terms.slope[0], rel=1e-11, abs=1e-15)


def by_hand(part: float) -> PlacedSamples:
    """An event in the first interval, one in the second, and one of half weight who passes."""
    return PlacedSamples(
        torch.tensor([0, 1, 2]),
        torch.tensor([True, True, False]),
        torch.tensor([part, part, 0.0], dtype=torch.float64),
        torch.tensor([1.0, 1.0, 0.5], dtype=torch.float64),
    )


def test_by_hand_three_patients_two_intervals() -> None:
    """Logit, α = (0, log 3), phi = 0: hazards one half and three quarters."""
    alpha = torch.tensor([0.0, np.log(3.0)], dtype=torch.float64)
    found = loss_and_slopes(
        torch.zeros(3, dtype=torch.float64), alpha, by_hand(0.0), link="logit", event_weight=2.0
    )
    first = 2 * np.log(2)
    second = np.log(2) + 2 * np.log(4 / 3)
    third = 0.5 * (np.log(2) + np.log(4))
    assert float(found.loss) == pytest.approx(first + second + third, rel=1e-14)
    assert found.phi.tolist() == pytest.approx([-1.0, 0.5 - 0.5, 0.25 + 0.375], abs=1e-15)
    assert found.alpha.tolist() == pytest.approx([-1 + 0.5 + 0.25, -0.5 + 0.375], abs=1e-15)


def test_by_hand_three_patients_two_pieces() -> None:
    """Log, α = (0, log 3), phi = 0: hazards of one and three; events half-way through."""
    alpha = torch.tensor([0.0, np.log(3.0)], dtype=torch.float64)
    found = loss_and_slopes(
        torch.zeros(3, dtype=torch.float64), alpha, by_hand(0.5), link="log", event_weight=2.0
    )
    first, second, third = 0.5, 1 + 1.5 - 2 * np.log(3), 0.5 * (1 + 3)
    assert float(found.loss) == pytest.approx(first + second + third, rel=1e-14)
    assert found.phi.tolist() == pytest.approx([0.5 - 2, 2.5 - 2, 2.0], abs=1e-15)
    assert found.alpha.tolist() == pytest.approx([0.5 + 1 + 0.5 - 2, 1.5 + 1.5 - 2], abs=1e-15)


def found(
    phi: FloatArray, cohort: Cohort, weight: FloatArray | None = None
) -> tuple[float, FloatArray]:
    loss, slopes = cox_loss(
        torch.tensor(phi),
        torch.tensor(cohort.time),
        torch.tensor(cohort.event),
        None if weight is None else torch.tensor(weight),
    )
    return float(loss), np.asarray(slopes.numpy())


def test_loss_and_slopes_are_the_partial_likelihoods() -> None:
    cohort = simulated(80, columns=4, unit=10.0)  # many ties
    beta = np.array([0.3, -0.2, 0.5, 0.1])
    wanted = PartialLikelihood.of(cohort, Scaling.none(4), "breslow").derivatives(
        beta, Detail.GRADIENT
    )
    loss, slopes = found(cohort.covariates @ beta, cohort)
    assert loss == pytest.approx(wanted.loss, rel=1e-12)
    assert slopes @ cohort.covariates == pytest.approx(wanted.beta, rel=1e-10)


def test_it_is_the_likelihood_that_lifelines_maximises() -> None:
    cohort = simulated(120, columns=1, unit=1e6)  # no ties: lifelines takes Efron's
    table = pd.DataFrame(
        {"x": cohort.covariates[:, 0], "time": cohort.time, "event": cohort.event}
    )
    fitter = CoxPHFitter().fit(table, "time", "event")
    beta = float(fitter.params_["x"])
    loss, slopes = found(beta * cohort.covariates[:, 0], cohort)
    assert loss == pytest.approx(-fitter.log_likelihood_, rel=1e-8)
    assert slopes @ cohort.covariates[:, 0] == pytest.approx(0.0, abs=1e-4)


@settings(max_examples=25)
@given(
    times=st.lists(st.integers(0, 5), min_size=1, max_size=8),
    data=st.data(),
)
def test_slopes_are_autograds_with_weights_and_ties(
    times: list[int], data: st.DataObject
) -> None:
    size = len(times)
    event = data.draw(st.lists(st.booleans(), min_size=size, max_size=size))
    scores = data.draw(st.lists(st.floats(-50, 50), min_size=size, max_size=size))
    weight = data.draw(
        st.lists(st.sampled_from([0.0, 0.5, 1.0, 2.0]), min_size=size, max_size=size)
    )
    phi = torch.tensor(scores, dtype=torch.float64, requires_grad=True)
    own = torch.tensor(weight, dtype=torch.float64)
    time = torch.tensor(times, dtype=torch.float64)
    loss = torch.zeros((), dtype=torch.float64)
    for i in range(size):
        if event[i] and weight[i] > 0:
            at_risk = (time >= time[i]) & (own > 0)
            total = torch.logsumexp(phi[at_risk] + own[at_risk].log(), 0)
            loss = loss + own[i] * (total - phi[i])
    terms = cox_loss(phi.detach(), time, torch.tensor(event), own)
    wanted = torch.zeros_like(phi)
    if loss.requires_grad:
        (wanted,) = torch.autograd.grad(loss, [phi])
    assert_close(terms.loss, loss.detach(), rtol=1e-10, atol=1e-10)
    assert_close(terms.phi, wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ["perceptron", "tile scorer", "own, of both"])
def test_the_gradient_of_a_network_follows_the_loss(name: str) -> None:
    """Central differences of the loss itself."""
    from fedcox.models.modules import start

    cohort = patients_with_slides()
    model = NeuralModel(ARCHITECTURES[name], "logit", 4, precision="float64")
    patients = model.lay_out(cohort, None)
    theta = start(model.architecture, 1)
    rows = np.array([1, 2, 5, 7, 8, 11, 13])
    gradient = model.cox_gradient(theta, patients, rows).beta
    direction = np.random.default_rng(0).normal(size=theta.size)
    direction /= np.linalg.norm(direction)
    step = 1e-6
    ahead, behind = (
        model.cox_gradient(theta + sign * step * direction, patients, rows).loss
        for sign in (1, -1)
    )
    slope = (ahead - behind) / (2 * step)
    assert slope == pytest.approx(gradient @ direction, rel=1e-6, abs=1e-7)
