"""Real questions about networks, of every kind, that tests of the codec draw from."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from fedcox.federation.batch import EpochBatch, EpochCells, HeldOut
from fedcox.federation.queries.baseline_slopes import BaselineSlopesAt
from fedcox.federation.queries.clipped_gradient import ClippedNetworkGradientAt
from fedcox.federation.queries.derivatives import DerivativesAt
from fedcox.federation.queries.local_steps import LocalEpochs, LocalSteps, LocalTraining
from fedcox.federation.queries.network_loss import NetworkLossAt
from fedcox.federation.query import AbstractQuery
from fedcox.federation.setting import Setting
from fedcox.models.architecture import Perceptron
from fedcox.models.predictors.network import Network
from fedcox.privacy.noise import GaussianRelease
from fedcox.survival.derivatives import Detail
from fedcox.survival.scaling import Scaling


def network_point(agreed: Setting) -> tuple[Any, Any]:
    return np.linspace(-2.5, -1.5, agreed.intervals), agreed.start(1)


def network_questions(
    timing: Setting, release: GaussianRelease, *, population: int, columns: int
) -> dict[str, AbstractQuery[Any]]:
    network = Network(Perceptron(columns, (2,)), 3.5, "patient", "float64")
    agreed = timing.with_predictor(network)
    at = agreed, *network_point(agreed)
    # Under noise no column may be left out of the scale.
    public = Setting(
        timing.grid, timing.active, timing.reading, timing.link, Scaling.none(columns)
    )
    whole = public.with_predictor(network)
    held = HeldOut(2**70, 0.3, population)
    training = LocalTraining(agreed, "adam", LocalEpochs(2, 16, held), seed=2**65)
    place = 2**66, 3, 1
    gradient = DerivativesAt(*at, Detail.GRADIENT)
    return {
        "network gradient": gradient,
        "network gradient of patients": replace(
            gradient, batch=EpochBatch(*place, 20, population, held)
        ),
        "network gradient of cells": replace(
            gradient, batch=EpochCells(*place, 90, population, agreed.intervals)
        ),
        "network loss": NetworkLossAt(*at, held),
        "network steps": LocalSteps(training, *at[1:], 0.01, 4),
        "network steps on everybody": LocalSteps(
            replace(training, plan=LocalEpochs(2), descent="sgd"), *at[1:], 0.5, 1
        ),
        "clipped network gradient": ClippedNetworkGradientAt(whole, *at[1:], release),
        **{
            f"baseline {detail.value}": BaselineSlopesAt(*at, np.array([1.25]), detail)
            for detail in (Detail.DIAGONAL, Detail.HESSIAN)
        },
    }
