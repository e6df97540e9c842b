"""The loss without a stack against the stack, at ordinary and at extreme scores."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from fedcox.models import discrete_time_loss as module
from fedcox.models.discrete_time_loss import (
    cell_loss_and_slopes,
    discrete_time_loss,
    loss_and_slopes,
    sample_slopes,
)
from fedcox.models.placed_samples import PlacedSamples
from fedcox.survival.link import LINKS as SURVIVAL_LINKS
from fedcox.survival.link import LinkName
from fedcox.survival.person_periods import PersonPeriods, stack
from fedcox.survival.time_grid import CensoredInterval, TimeGrid
from tests.models.network_examples import LINKS, assert_close, cell_losses
from tests.problems import READINGS, simulated

COHORT = simulated(60)
GRID = TimeGrid.regular(20.0, 120.0)
T = GRID.intervals


def problem(
    reading: CensoredInterval, seed: int = 0
) -> tuple[Tensor, Tensor, PlacedSamples, PersonPeriods]:
    rng = np.random.default_rng(seed)
    weight = rng.uniform(0.2, 1.5, COHORT.patients)
    risk = GRID.at_risk(COHORT.time, COHORT.event, reading)
    phi = torch.tensor(rng.normal(size=COHORT.patients), requires_grad=True)
    alpha = torch.tensor(rng.normal(-1.0, 1.0, T), requires_grad=True)
    rows = stack(COHORT, GRID, reading)
    rows = PersonPeriods(
        rows.patient, rows.interval, rows.event, rows.weight * weight[rows.patient]
    )
    return phi, alpha, PlacedSamples.of(risk, weight=weight), rows


def stacked_loss(
    phi: Tensor, alpha: Tensor, rows: PersonPeriods, link: LinkName, balance: float
) -> Tensor:
    z = phi[torch.tensor(rows.patient)] + alpha[torch.tensor(rows.interval)]
    happened = torch.tensor(rows.event, dtype=z.dtype)
    costs = cell_losses(z, happened, link, balance)
    return (torch.tensor(rows.weight, dtype=z.dtype) * costs).sum()


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("balance", [1.0, 30.0])
def test_loss_and_slopes_are_those_of_the_stacked_rows(
    link: LinkName,
    reading: CensoredInterval,
    balance: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_CELLS", 7 * T)  # several blocks
    phi, alpha, placed, rows = problem(reading)
    wanted = stacked_loss(phi, alpha, rows, link, balance)
    of_phi, of_alpha = torch.autograd.grad(wanted, [phi, alpha])
    found = loss_and_slopes(
        phi.detach(), alpha.detach(), placed, link=link, event_weight=balance
    )
    assert_close(found.loss, wanted.detach(), rtol=1e-12, atol=0)
    assert_close(found.phi, of_phi, rtol=1e-10, atol=1e-12)
    assert_close(found.alpha, of_alpha, rtol=1e-10, atol=1e-12)
    each = sample_slopes(phi, alpha, placed, link=link, event_weight=balance)
    assert_close(each.cost.sum(), wanted, rtol=1e-12, atol=0)
    assert_close(each.alpha.sum(1), of_phi, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("link", LINKS)
def test_the_loss_as_a_tensor_goes_through_a_users_own_backward(link: LinkName) -> None:
    phi, alpha, placed, rows = problem("half")
    wanted = torch.autograd.grad(
        (3 * stacked_loss(phi.tanh(), alpha, rows, link, 2.0)).square(), [phi, alpha]
    )
    loss = discrete_time_loss(phi.tanh(), alpha, placed, link=link, event_weight=2.0)
    torch.autograd.backward((3 * loss).square())
    for found, own in zip((phi.grad, alpha.grad), wanted, strict=True):
        assert found is not None
        assert_close(found, own, rtol=1e-10, atol=1e-8)


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("reading", READINGS)
def test_some_stacked_rows_cost_what_they_cost_in_the_stack(
    link: LinkName, reading: CensoredInterval
) -> None:
    phi, alpha, placed, rows = problem(reading)
    chosen = np.random.default_rng(0).integers(rows.patient.size, size=40)  # some twice
    some = PersonPeriods(*(getattr(rows, part)[chosen] for part in vars(rows)))
    wanted = stacked_loss(phi, alpha, some, link, 5.0)
    slopes = torch.autograd.grad(wanted, [phi, alpha])
    cells = torch.tensor(some.patient), torch.tensor(some.interval)
    found = cell_loss_and_slopes(phi, alpha, cells, placed, link=link, event_weight=5.0)
    assert_close(found.loss, wanted, rtol=1e-12, atol=0)
    assert_close(found.phi, slopes[0], rtol=1e-10, atol=1e-12)
    assert_close(found.alpha, slopes[1], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("score", [-50.0, 0.0, 50.0])
@pytest.mark.parametrize("level", [-30.0, 0.0, 30.0])
def test_extreme_scores_give_finite_loss_and_true_slopes(
    link: LinkName, dtype: torch.dtype, score: float, level: float
) -> None:
    """Against the numpy link of the linear model, in float64."""
    placed = PlacedSamples(
        torch.tensor([2, 2, 1]),
        torch.tensor([True, False, False]),
        torch.tensor([False, False, True]),
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
        loss_and_slopes(phi, alpha, placed, link=link),
        _from_samples(phi, alpha, placed, link),
    ):
        assert float(found[0]) == pytest.approx(cost, rel=rounding, abs=1e-30)
        assert found[1].double().numpy() == pytest.approx(slopes, rel=rounding, abs=1e-15)
        assert bool(torch.isfinite(found[2]).all())


def _from_samples(
    phi: Tensor, alpha: Tensor, placed: PlacedSamples, link: LinkName
) -> tuple[Tensor, Tensor, Tensor]:
    terms = sample_slopes(phi, alpha, placed, link=link)
    return terms.cost.sum(), terms.alpha.sum(1), terms.alpha.sum(0)


@settings(deadline=None, max_examples=60)
@given(z=st.floats(-600.0, 6.0))
def test_the_cost_of_an_event_is_exact_over_its_whole_range(z: float) -> None:
    """cloglog: −log(1 − exp(−e^z)), against the link of the linear model."""
    placed = PlacedSamples(
        torch.tensor([1]),
        torch.tensor([True]),
        torch.tensor([False]),
        torch.ones(1, dtype=torch.float64),
    )
    found = loss_and_slopes(
        torch.tensor([z], dtype=torch.float64),
        torch.zeros(1, dtype=torch.float64),
        placed,
        link="cloglog",
    )
    terms = SURVIVAL_LINKS["cloglog"].event(np.exp(np.array([z])))
    assert float(found.loss) == pytest.approx(terms.cost[0], rel=1e-12, abs=1e-15)
    assert float(found.phi[0]) == pytest.approx(terms.slope[0], rel=1e-11, abs=1e-15)


def test_by_hand_three_patients_two_intervals() -> None:
    """Logit, α = (0, log 3), phi = 0: hazards one half and three quarters."""
    placed = PlacedSamples(
        torch.tensor([1, 2, 2]),
        torch.tensor([True, True, False]),
        torch.tensor([False, False, False]),
        torch.tensor([1.0, 1.0, 0.5], dtype=torch.float64),
    )
    alpha = torch.tensor([0.0, np.log(3.0)], dtype=torch.float64)
    found = loss_and_slopes(
        torch.zeros(3, dtype=torch.float64), alpha, placed, link="logit", event_weight=2.0
    )
    first = 2 * np.log(2)
    second = np.log(2) + 2 * np.log(4 / 3)
    third = 0.5 * (np.log(2) + np.log(4))
    assert float(found.loss) == pytest.approx(first + second + third, rel=1e-14)
    assert found.phi.tolist() == pytest.approx([-1.0, 0.5 - 0.5, 0.25 + 0.375], abs=1e-15)
    assert found.alpha.tolist() == pytest.approx([-1 + 0.5 + 0.25, -0.5 + 0.375], abs=1e-15)
