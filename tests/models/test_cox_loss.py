"""Cox's loss of a batch against its definition by fedcox and against lifelines."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from lifelines import CoxPHFitter

from fedcox.models.losses import cox_loss
from fedcox.models.neural import NeuralModel
from fedcox.survival.cohort import Cohort, FloatArray
from fedcox.survival.derivatives import Detail
from fedcox.survival.partial_likelihood import PartialLikelihood
from fedcox.survival.scaling import Scaling
from tests.models.network_examples import ARCHITECTURES, assert_close, patients_with_slides
from tests.problems import simulated


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


@settings(deadline=None, max_examples=25)
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
