"""Which solver trains a network? The one that the options name, if they go together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from fedcox.errors import InputError
from fedcox.solvers.adam import NetworkAdam
from fedcox.solvers.federated_averaging import NetworkAveraging
from fedcox.solvers.private_network import PrivateNetwork
from fedcox.solvers.training import AbstractTrainer


@dataclass(frozen=True)
class NoiseChoice:
    """The options about noise; without `epsilon` there is none.

    `steps` are rounds in all, and `clip` bounds the gradient of a patient.
    """

    epsilon: float | None
    delta: float | None
    planned_patients: int | None
    steps: int
    clip: float


@dataclass(frozen=True)
class NetworkSolverChoice:
    """The options of `fedcox slides train` that make a solver.

    Under noise the training has the rounds of `noise`; else it has `epochs`.
    """

    solver: Literal["adam", "fedavg"]
    epochs: int
    batch_size: int
    learning_rate: float
    local_epochs: int
    validation: float
    patience: int | None
    noise: NoiseChoice

    @property
    def length(self) -> int:
        """How many epochs the training has, or rounds under noise."""
        return self.epochs if self.noise.epsilon is None else self.noise.steps

    def made(self) -> AbstractTrainer:
        """The solver; options that would do nothing are refused, all at once."""
        faults = [*self._useless()]
        epsilon = self.noise.epsilon
        if epsilon is not None:
            faults += self._not_under_noise()
        if faults:
            raise InputError("These options do not go together.", faults)
        if epsilon is not None:
            return self._private(epsilon)
        if self.solver == "fedavg":
            return NetworkAveraging(
                self.epochs,
                self.local_epochs,
                self.batch_size,
                self.learning_rate,
                validation=self.validation,
                patience=self.patience,
            )
        return NetworkAdam(
            self.epochs,
            self.batch_size,
            self.learning_rate,
            validation=self.validation,
            patience=self.patience,
        )

    def _useless(self) -> Iterator[str]:
        if self.patience is not None and not self.validation:
            yield "--patience needs patients to judge by: say --validation 0.2, too."
        if self.local_epochs > 1 and self.solver != "fedavg":
            yield "--local-epochs goes with --solver fedavg."
        given = self.noise.delta is not None or self.noise.planned_patients is not None
        if self.noise.epsilon is None and given:
            yield "--delta and --planned-patients go with --epsilon."

    def _not_under_noise(self) -> Iterator[str]:
        if self.noise.delta is None:
            yield "--epsilon needs --delta, such as 1e-5."
        if self.noise.planned_patients is None:
            yield (
                "--epsilon needs --planned-patients, about how many take part: a public number."
            )
        if self.validation:
            yield "--validation would ask for more than --epsilon pays for; leave it out."
        if self.solver == "fedavg":
            yield "--epsilon has a solver of its own; leave --solver out."

    def _private(self, epsilon: float) -> PrivateNetwork:
        return PrivateNetwork(
            patients=self.noise.planned_patients or 0,
            epsilon=epsilon,
            delta=self.noise.delta or 0.0,
            steps=self.noise.steps,
            clip=self.noise.clip,
        )
