"""Questions about networks over a network: what may be built in a hospital, and what not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from torch import nn

from fedcox.engines.codec.questions import (
    decode_questions,
    encode_questions,
    setting_digest,
    settings_brought,
)
from fedcox.engines.in_process import InProcess
from fedcox.errors import MessageError
from fedcox.federation.batch import EpochBatch, EpochCells, HeldOut
from fedcox.federation.compression import Float32
from fedcox.federation.queries.compressed_gradient import CompressedGradientAt
from fedcox.federation.queries.derivatives import DerivativesAt
from fedcox.federation.queries.local_steps import LocalEpochs, LocalSteps, LocalTraining
from fedcox.federation.queries.network_loss import NetworkLossAt
from fedcox.federation.query import Shared
from fedcox.federation.setting import Setting
from fedcox.models.architecture import OwnModule, Perceptron, TileScorer, TileScorerWithTable
from fedcox.models.predictors.network import Network, network_of
from fedcox.solvers.adam import NetworkAdam
from fedcox.solvers.federated_averaging import NetworkAveraging
from fedcox.study.plan import NetworkPlan
from fedcox.study.training import train_network
from fedcox.survival.derivatives import Detail
from tests.engines.codec.examples import (
    COHORT,
    COLUMNS,
    PATIENTS,
    QUESTIONS,
    SETTINGS,
    question_message,
    questions_in,
)
from tests.engines.codec.network_questions import network_point
from tests.engines.codec.test_replies import OverBytes
from tests.problems import simulated, split

TIMING = SETTINGS["cloglog, half"]


def agreed(architecture: Any = None, **changed: Any) -> Setting:
    network = Perceptron(COLUMNS, (2,)) if architecture is None else architecture
    return TIMING.with_predictor(Network(network, **changed))


def at(setting: Setting, batch: Any = None) -> DerivativesAt:
    return DerivativesAt(setting, *network_point(setting), Detail.GRADIENT, batch)


@pytest.mark.parametrize(
    "architecture",
    [TileScorer(6, 3, 0.2), TileScorerWithTable(6, COLUMNS, 3), Perceptron(3, ())],
)
def test_every_architecture_of_the_list_arrives(architecture: Any) -> None:
    query = at(agreed(architecture, _device="cuda:7"))
    settings: dict[bytes, Shared] = {}
    (found,) = questions_in(question_message(query), settings)
    assert isinstance(found, DerivativesAt)
    assert network_of(found.agreed.predictor).architecture == architecture
    assert found.digest == query.digest
    assert set(settings) == {setting_digest(query.agreed)}
    # On which device a hospital computes is nobody else's matter.
    assert network_of(found.agreed.predictor)._device == "cpu"
    assert query.digest == at(agreed(architecture)).digest


def test_a_setting_is_brought_once_and_laid_out_once() -> None:
    first = at(agreed())
    settings: dict[bytes, Shared] = {}
    (one,) = questions_in(question_message(first), settings)
    later = encode_questions([replace(first, alpha=first.alpha + 1.0)], settings)
    assert settings_brought(later) == []
    (two,) = decode_questions(later, settings, columns=COLUMNS)
    assert isinstance(one, DerivativesAt)
    assert isinstance(two, DerivativesAt)
    assert two.setting is one.setting
    assert two.agreed.prepared(COHORT) is one.agreed.prepared(COHORT)


SCORE: Any = next(query for query in QUESTIONS.values() if query.name == "noised score")
HELD = HeldOut(1, 0.5, PATIENTS)
CELLS = EpochCells(1, 1, 0, 9, PATIENTS, TIMING.intervals)
WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "a module of one's own": (
        lambda: at(agreed(OwnModule("own", "table", lambda: nn.Linear(3, 1, bias=False)))),
        "architecture: must be a TileScorer or TileScorerWithTable or Perceptron",
    ),
    "theta too short": (
        lambda: replace(at(agreed()), beta=np.zeros(2)),
        r"beta has the shape \(2,\); \(10,\) is needed",
    ),
    "alpha too long": (
        lambda: replace(at(agreed()), alpha=np.zeros(99)),
        r"alpha has the shape \(99,\)",
    ),
    "theta in single precision": (
        lambda: replace(at(agreed()), beta=np.zeros(10, dtype=np.float32)),
        "beta: must be an array of float64",
    ),
    "a network of other columns": (
        lambda: at(agreed(Perceptron(COLUMNS + 1, (2,)))),
        "reads 4 columns, and patients have 3",
    ),
    "a network that fills the memory": (
        lambda: replace(at(agreed()), agreed=agreed(TileScorer(10**6, 10**6))),
        "architecture: features must be from 1 to 16,384",
    ),
    "a weight of zero": (lambda: at(agreed(event_weight=0.0)), "event_weight must be above"),
    "a batch of nobody": (
        lambda: at(agreed(), EpochBatch(1, 1, 0, 5, 0)),
        "batch: population must be from 1",
    ),
    "an order without end": (
        lambda: at(agreed(), replace(CELLS, population=10**7)),
        "batch: patients times intervals must be from 1 to 50,000,000",
    ),
    "cells of other intervals": (
        lambda: at(agreed(), replace(CELLS, intervals=3)),
        "intervals must be those that are fitted",
    ),
    "left out of others": (
        lambda: at(agreed(), EpochBatch(1, 1, 0, 5, 70, HELD)),
        "left out of another population",
    ),
    "a curvature": (
        lambda: replace(at(agreed()), detail=Detail.HESSIAN),
        "a network has a gradient and no curvature",
    ),
    "the loss of coefficients": (
        lambda: NetworkLossAt(TIMING, *network_point(TIMING), HELD),
        "the setting's predictor must be a network",
    ),
    "a network compressed": (
        lambda: CompressedGradientAt(at(agreed()), 1, Float32()),
        "the setting's predictor must be linear",
    ),
    "a score of a network": (
        lambda: replace(SCORE, agreed=agreed(), beta=agreed().start()),
        "the setting's predictor must be linear",
    ),
    "everybody held out": (
        lambda: NetworkLossAt(agreed(), *network_point(agreed()), replace(HELD, share=1.0)),
        "held_out: share must be between 0 and 1",
    ),
    "training without end": (
        lambda: LocalSteps(
            LocalTraining(agreed(), "sgd", LocalEpochs(10**9)), *network_point(agreed()), 0.1, 1
        ),
        "training: plan: epochs must be from 1 to 1,000,000",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_question_is_not_answered(name: str) -> None:
    make, words = WRONG[name]
    if name == "a network of other columns":  # only a hospital knows its columns
        message = question_message(make())
        with pytest.raises(MessageError, match=words):
            questions_in(message)
        return
    with pytest.raises(MessageError, match=words):
        question_message(make())


@pytest.mark.parametrize(
    "solver",
    [
        NetworkAdam(epochs=2, batch_size=50, learning_rate=0.05, validation=0.2),
        NetworkAdam(epochs=1, batch_size=300, learning_rate=0.05, batching="rows"),
        NetworkAveraging(rounds=2, batch_size=20, validation=0.2),
    ],
)
@pytest.mark.parametrize("changed", [{}, {"width": 25.0, "link": "logit", "balanced": True}])
def test_a_training_over_bytes_is_the_training_at_home_to_the_last_bit(
    solver: Any, changed: dict[str, Any]
) -> None:
    pooled = simulated(200, COLUMNS, seed=8)
    cohorts = split(pooled, np.arange(200) % 7 % 3, 4)  # unequal, and one of nobody
    plan = NetworkPlan(Perceptron(COLUMNS, (4,)), solver=solver, **changed)
    found = train_network(plan, OverBytes.of(cohorts))
    expected = train_network(plan, InProcess.from_cohorts(cohorts))
    assert found.theta.tobytes() == expected.theta.tobytes()
    assert found.alpha.tobytes() == expected.alpha.tobytes()
