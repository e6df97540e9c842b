"""Federated averaging of a network: centers train on their own, and their mean goes on.

Far fewer rounds than one a batch, at the price of another path: where centers differ, the mean
of their own ways is not the way of all patients together (McMahan et al. 2017).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedcox.errors import InputError
from fedcox.federation.queries.network_steps import NetworkSteps, NetworkTraining
from fedcox.federation.query import Federation
from fedcox.solvers.early_stopping import best_epoch, is_over
from fedcox.solvers.network_solver import (
    AbstractNetworkSolver,
    Checkpoint,
    EpochLoss,
    NetworkProblem,
    NetworkSolution,
    NetworkWatcher,
    Point,
    TrainingState,
    check_finite,
    held_out,
    validation_loss,
)
from fedcox.solvers.training_choices import not_among, not_counts, not_positive, not_within
from fedcox.survival.descent import DescentName


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
        training = NetworkTraining(
            problem.setting,
            self.descent,
            self.local_epochs,
            self.batch_size,
            held,
            problem.seed,
        )
        kept = None if checkpoint is None else checkpoint.load()
        state = _start(problem) if kept is None else kept
        while not is_over(state.epochs, self.rounds, self.patience):
            number = len(state.epochs) + 1
            here = state.arrays["theta"], state.arrays["alpha"]
            ends = federation.ask(NetworkSteps(training, *here, self.learning_rate, number))
            check_finite(ends.loss + float(ends.theta.sum() + ends.alpha.sum()), number)
            there = ends.theta / ends.patients, ends.alpha / ends.patients
            validation = validation_loss(federation, problem.setting, there, held)
            done = (*state.epochs, EpochLoss(number, ends.loss / ends.patients, validation))
            best = there
            if best_epoch(done) != number:
                best = state.arrays["best_theta"], state.arrays["best_alpha"]
            state = _state(there, best, done)
            watch(done[-1])
            if checkpoint is not None:
                checkpoint.save(state)
        arrays = state.arrays
        return NetworkSolution(
            arrays["best_theta"], arrays["best_alpha"], state.epochs, best_epoch(state.epochs)
        )


def _start(problem: NetworkProblem) -> TrainingState:
    here = np.array(problem.theta), np.array(problem.alpha)
    return _state(here, here, ())


def _state(here: Point, best: Point, epochs: tuple[EpochLoss, ...]) -> TrainingState:
    names = "theta", "alpha", "best_theta", "best_alpha"
    arrays = dict(zip(names, (*here, *best), strict=True))
    return TrainingState(arrays, epochs)
