"""Federated averaging of a network: centers train on their own, and their mean goes on.

Far fewer rounds than one a batch, at the price of another path: where centers differ, the mean
of their own ways is not the way of all patients together (McMahan et al. 2017).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from fedcox.errors import InputError
from fedcox.federation.queries.network_steps import NetworkSteps, NetworkTraining
from fedcox.federation.query import Federation
from fedcox.solvers.network_epochs import AbstractTraining, Epochs
from fedcox.solvers.network_solver import (
    AbstractNetworkSolver,
    Checkpoint,
    NetworkProblem,
    NetworkSolution,
    NetworkWatcher,
    Point,
    check_finite,
    held_out,
    validation_loss,
)
from fedcox.solvers.training_choices import not_among, not_counts, not_positive, not_within
from fedcox.survival.cohort import FloatArray
from fedcox.survival.descent import DescentName

_ARRAYS = "theta", "alpha", "best_theta", "best_alpha"


@dataclass(frozen=True)
class NetworkAveraging(AbstractNetworkSolver):
    """`rounds` rounds of `local_epochs` epochs in each center, then the mean by patients.

    `descent` is "adam", begun anew in every round, or "sgd". A local step looks at `batch_size`
    of the center's own patients, at all of them where that is None. With "sgd", one epoch and
    None a round is one step of gradient descent over all patients. `validation` and `patience`
    are those of NetworkAdam, by rounds.
    """

    rounds: int = 25
    local_epochs: int = 1
    batch_size: int | None = 16
    learning_rate: float = 1e-3
    descent: DescentName = "adam"
    validation: float = 0.0
    patience: int | None = 5

    def __post_init__(self) -> None:
        faults = [
            *not_counts(self, "rounds", "local_epochs", "batch_size", "patience"),
            *not_positive(self, "learning_rate"),
            *not_within(self, "validation", zero=True),
            *not_among(self, "descent", "adam", "sgd"),
        ]
        if faults:
            raise InputError("A network cannot be trained like this.", faults)

    def minimise(
        self,
        federation: Federation,
        problem: NetworkProblem,
        watch: NetworkWatcher = lambda step: None,
        checkpoint: Checkpoint | None = None,
    ) -> NetworkSolution:
        held = held_out(self.validation, problem)
        agreed = NetworkTraining(
            problem.setting,
            self.descent,
            self.local_epochs,
            self.batch_size,
            held,
            problem.seed,
        )
        training = _Training(federation, problem, agreed, self.learning_rate)
        validate = partial(validation_loss, federation, problem.setting, held)
        return Epochs(self.rounds, self.patience, validate).of(training, watch, checkpoint)


class _Training(AbstractTraining):
    """Where training is: θ and α, and the best so far."""

    def __init__(
        self,
        federation: Federation,
        problem: NetworkProblem,
        agreed: NetworkTraining,
        rate: float,
    ) -> None:
        self._federation, self._agreed, self._rate = federation, agreed, rate
        self._point: Point = np.array(problem.theta), np.array(problem.alpha)
        self._best = self._point

    @property
    def point(self) -> Point:
        return self._point

    @property
    def best(self) -> Point:
        return self._best

    def train(self, epoch: int) -> float:
        query = NetworkSteps(self._agreed, *self._point, self._rate, epoch)
        ends = self._federation.ask(query)
        check_finite(ends.loss + float(ends.theta.sum() + ends.alpha.sum()), epoch)
        self._point = ends.theta / ends.patients, ends.alpha / ends.patients
        return ends.loss / ends.patients

    def keep(self) -> None:
        self._best = self._point

    @property
    def arrays(self) -> dict[str, FloatArray]:
        return dict(zip(_ARRAYS, (*self._point, *self._best), strict=True))

    def resume(self, arrays: Mapping[str, FloatArray]) -> None:
        theta, alpha, best_theta, best_alpha = (arrays[name] for name in _ARRAYS)
        self._point, self._best = (theta, alpha), (best_theta, best_alpha)
