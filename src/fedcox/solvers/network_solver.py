"""What a network's solver is: it decides at which parameters to ask for the next gradient."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from fedcox.errors import InputError
from fedcox.federation.batch import HeldOut
from fedcox.federation.network_setting import NetworkSetting
from fedcox.federation.queries.network_loss import NetworkLossAt
from fedcox.federation.query import Federation
from fedcox.survival.cohort import FloatArray


@dataclass(frozen=True)
class NetworkStep:
    """One step of training: `step` of `steps` in `epoch`, all counted from one.

    `loss` is per patient, of those the step looked at. NaN where asking for it would cost.
    """

    epoch: int
    step: int
    steps: int
    loss: float


@dataclass(frozen=True)
class EpochLoss:
    """Loss per patient over an epoch, or a round of averaging, and on held-out patients."""

    epoch: int
    loss: float
    validation: float | None = None


#: θ and α.
Point: TypeAlias = tuple[FloatArray, FloatArray]

NetworkWatcher = Callable[[NetworkStep | EpochLoss], None]


@dataclass(frozen=True, eq=False)
class NetworkProblem:
    """What to minimise: the mean loss per patient, from a start that is given.

    `cells` counts the rows of the stack over all centers, halves as one half; under noise
    nobody may know it, nor how many `patients` there are but about.
    """

    setting: NetworkSetting
    theta: FloatArray
    alpha: FloatArray
    patients: int
    cells: float | None
    seed: int


@dataclass(frozen=True, eq=False)
class NetworkSolution:
    """Where training ended, or where it did best on held-out patients."""

    theta: FloatArray
    alpha: FloatArray
    epochs: tuple[EpochLoss, ...]
    best: int  # the epoch whose end this is


@dataclass(frozen=True, eq=False)
class TrainingState:
    """All that the rest of a training depends on, after some whole epochs or rounds."""

    arrays: Mapping[str, FloatArray]
    epochs: tuple[EpochLoss, ...]


class Checkpoint(Protocol):
    """Where a training is kept, so that it goes on after a crash with the same bits."""

    def load(self) -> TrainingState | None:
        """What was saved last; None where nothing was."""
        ...

    def save(self, state: TrainingState) -> None:
        """Keep this instead, whole."""
        ...


class AbstractNetworkSolver(ABC):
    """Trains a network by asking a federation."""

    @abstractmethod
    def minimise(
        self,
        federation: Federation,
        problem: NetworkProblem,
        watch: NetworkWatcher = lambda step: None,
        checkpoint: Checkpoint | None = None,
    ) -> NetworkSolution:
        """Train to the end, from the problem's start or from where the checkpoint is."""


def held_out(share: float, problem: NetworkProblem) -> HeldOut | None:
    """The patients that training does not look at; None where there are to be none."""
    if share == 0.0:
        return None
    if problem.patients < 2:
        raise InputError(
            f"There are {problem.patients} patient(s), and some are to be held out.",
            ["Train without validation, or on more patients."],
        )
    return HeldOut(problem.seed, share, problem.patients)


def validation_loss(
    federation: Federation,
    setting: NetworkSetting,
    held: HeldOut | None,
    point: Point,
) -> float | None:
    """Loss per held-out patient at (θ, α): one round; None without such patients."""
    if held is None:
        return None
    found = federation.ask(NetworkLossAt(setting, *point, held))
    return found.loss / found.patients if found.patients else math.nan


def check_finite(total: float, epoch: int) -> None:
    """Refuse to go on where loss and gradient, or parameters, added up, are no number."""
    if not math.isfinite(total):
        raise InputError(
            f"The training left all bounds in epoch {epoch}: loss or gradient is no number.",
            ["Take a smaller learning_rate, or look for features that are far too large."],
        )
