"""Real questions about networks, of every kind, that tests of the codec draw from."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from fedcox.federation.batch import EpochBatch, EpochCells, HeldOut
from fedcox.federation.network_setting import NetworkSetting
from fedcox.federation.queries.baseline_slopes import BaselineSlopesAt
from fedcox.federation.queries.clipped_network_gradient import ClippedNetworkGradientAt
from fedcox.federation.queries.network_gradient import NetworkGradientAt
from fedcox.federation.queries.network_loss import NetworkLossAt
from fedcox.federation.queries.network_steps import NetworkSteps, NetworkTraining
from fedcox.federation.query import AbstractQuery
from fedcox.federation.setting import Setting
from fedcox.models.architecture import Perceptron
from fedcox.privacy.noise import GaussianRelease
from fedcox.survival.derivatives import Detail
from fedcox.survival.scaling import Scaling


def network_point(agreed: NetworkSetting) -> tuple[Any, Any]:
    return agreed.started(1), np.linspace(-2.5, -1.5, agreed.intervals)


def network_questions(
    timing: Setting, release: GaussianRelease, *, population: int, columns: int
) -> dict[str, AbstractQuery[Any]]:
    agreed = NetworkSetting(timing, Perceptron(columns, (2,)), 3.5, "patient", "float64")
    at = agreed, *network_point(agreed)
    # Under noise no column may be left out of the scale.
    public = Setting(
        timing.grid, timing.active, timing.reading, timing.link, Scaling.none(columns)
    )
    whole = NetworkSetting(public, Perceptron(columns, (2,)), 3.5, "patient", "float64")
    held = HeldOut(2**70, 0.3, population)
    training = NetworkTraining(agreed, "adam", 2, 16, held, 2**65)
    place = 2**66, 3, 1
    return {
        "network gradient": NetworkGradientAt(*at),
        "network gradient of patients": NetworkGradientAt(
            *at, EpochBatch(*place, 20, population, held)
        ),
        "network gradient of cells": NetworkGradientAt(
            *at, EpochCells(*place, 90, population, agreed.intervals)
        ),
        "network loss": NetworkLossAt(*at, held),
        "network steps": NetworkSteps(training, *at[1:], 0.01, 4),
        "network steps on everybody": NetworkSteps(
            replace(training, batch_size=None, left_out=None, descent="sgd"), *at[1:], 0.5, 1
        ),
        "clipped network gradient": ClippedNetworkGradientAt(whole, *at[1:], release),
        **{
            f"baseline {detail.value}": BaselineSlopesAt(*at, np.array([1.25]), detail)
            for detail in (Detail.DIAGONAL, Detail.HESSIAN)
        },
    }
