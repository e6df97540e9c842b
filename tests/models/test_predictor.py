"""Two predictors of one interface: a network without hidden layers is the linear one."""

from __future__ import annotations

import numpy as np
import pytest

from fedcox.errors import InputError
from fedcox.federation.batch import Batch, CellBatch, EpochBatch, EpochCells, PatientBatch
from fedcox.federation.queries.derivatives import DerivativesAt
from fedcox.federation.queries.local_steps import (
    LocalEpochs,
    LocalLooks,
    LocalSteps,
    LocalTraining,
)
from fedcox.federation.setting import Setting
from fedcox.models.architecture import Perceptron
from fedcox.models.predictors.network import Network
from fedcox.survival.cohort import Cohort
from fedcox.survival.derivatives import Detail
from fedcox.survival.link import LINKS
from fedcox.survival.scaling import Scaling
from fedcox.survival.time_grid import TimeGrid

PATIENTS, COLUMNS = 60, 3
RNG = np.random.default_rng(7)
COHORT = Cohort(
    RNG.normal(size=(PATIENTS, COLUMNS)),
    RNG.uniform(1.0, 150.0, PATIENTS),
    RNG.random(PATIENTS) < 0.5,
)
GRID = TimeGrid.regular(25.0, 150.0)
SCALING = Scaling(np.arange(COLUMNS), np.full(COLUMNS, 0.2), np.full(COLUMNS, 1.7))
ALPHA, BETA = np.linspace(-2.5, -1.5, GRID.intervals), np.array([0.4, -0.3, 0.1])
PLACE = 5, 1, 0
BATCHES: dict[str, Batch | None] = {
    "all": None,
    "patients": PatientBatch(1, 2, 20, PATIENTS),
    "cells": CellBatch(1, 2, 90, PATIENTS, GRID.intervals),
    "patients of an epoch": EpochBatch(*PLACE, 20, PATIENTS),
    "cells of an epoch": EpochCells(*PLACE, 90, PATIENTS, GRID.intervals),
}


def settings(link: str) -> tuple[Setting, Setting]:
    active = np.ones(GRID.intervals, dtype=np.bool_)
    linear = Setting(GRID, active, "include", LINKS[link], SCALING)
    network = Network(Perceptron(COLUMNS, ()), precision="float64")
    return linear, linear.with_predictor(network)


@pytest.mark.parametrize("link", ["cloglog", "logit"])
@pytest.mark.parametrize("batch", BATCHES)
def test_loss_and_gradient_are_the_same_whichever_predictor(link: str, batch: str) -> None:
    linear, network = (
        DerivativesAt(setting, ALPHA, BETA, Detail.GRADIENT, BATCHES[batch]).answer(COHORT)
        for setting in settings(link)
    )
    assert network.loss == pytest.approx(linear.loss, rel=1e-12)
    np.testing.assert_allclose(network.alpha, linear.alpha, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(network.beta, linear.beta, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    "plan", [LocalLooks(3), LocalLooks(2, cells=40), LocalEpochs(2, 16), LocalEpochs(1)]
)
def test_local_training_leads_to_the_same_place(plan: LocalLooks | LocalEpochs) -> None:
    ends = [
        LocalSteps(LocalTraining(setting, "sgd", plan), ALPHA, BETA, 0.1, 4).answer(COHORT)
        for setting in settings("logit")
    ]
    assert ends[0].patients == ends[1].patients == PATIENTS
    np.testing.assert_allclose(ends[1].beta, ends[0].beta, rtol=1e-9)
    np.testing.assert_allclose(ends[1].alpha, ends[0].alpha, rtol=1e-9)


def test_risks_are_those_of_the_scaled_columns() -> None:
    expected = (COHORT.covariates - 0.2) / 1.7 @ BETA
    for setting in settings("cloglog"):
        assert setting.parameters == setting.start(1).size == COLUMNS
        np.testing.assert_allclose(setting.risk(COHORT, BETA), expected, rtol=1e-12)


def test_a_network_has_no_curvature() -> None:
    _, network = settings("cloglog")
    with pytest.raises(InputError, match="no curvature"):
        DerivativesAt(network, ALPHA, BETA, Detail.HESSIAN).answer(COHORT)
