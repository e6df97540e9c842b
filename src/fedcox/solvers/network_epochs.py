"""How does a network's training go on? Train, ask held-out patients, keep the best, save."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from fedcox.data.wording import listed
from fedcox.errors import InputError
from fedcox.solvers.early_stopping import best_epoch, is_over
from fedcox.solvers.network_solver import (
    Checkpoint,
    EpochLoss,
    NetworkSolution,
    NetworkWatcher,
    Point,
    TrainingState,
)
from fedcox.survival.cohort import FloatArray


class AbstractTraining(ABC):
    """A training under way."""

    @abstractmethod
    def train(self, epoch: int) -> float:
        """Go on for one epoch, or one round; gives the loss per patient over it."""

    @property
    @abstractmethod
    def point(self) -> Point:
        """θ and α as they are now; later epochs do not change them."""

    @abstractmethod
    def keep(self) -> None:
        """Remember this point as the best so far."""

    @property
    @abstractmethod
    def best(self) -> Point:
        """The point that was kept last; the start, where none was."""

    @property
    @abstractmethod
    def arrays(self) -> dict[str, FloatArray]:
        """All that the rest of the training depends on, as it is saved."""

    @abstractmethod
    def resume(self, arrays: Mapping[str, FloatArray]) -> None:
        """Go back to where a training was whose `arrays` these are."""


@dataclass(frozen=True)
class Epochs:
    """At most `most` of them; fewer where the last `patience` gained nothing.

    `validate` gives the loss on held-out patients at a point, None where there are none.
    """

    most: int
    patience: int | None
    validate: Callable[[Point], float | None]

    def of(
        self, training: AbstractTraining, watch: NetworkWatcher, checkpoint: Checkpoint | None
    ) -> NetworkSolution:
        """Train to the end, from where the training is or from where the checkpoint is."""
        epochs: tuple[EpochLoss, ...] = ()
        kept = None if checkpoint is None else checkpoint.load()
        if kept is not None:
            _check(kept.arrays, training.arrays)
            training.resume(kept.arrays)
            epochs = kept.epochs
        while not is_over(epochs, self.most, self.patience):
            number = len(epochs) + 1
            loss = training.train(number)
            epochs = (*epochs, EpochLoss(number, loss, self.validate(training.point)))
            if best_epoch(epochs) == number:
                training.keep()
            watch(epochs[-1])
            if checkpoint is not None:
                checkpoint.save(TrainingState(training.arrays, epochs))
        return NetworkSolution(*training.best, epochs, best_epoch(epochs))


def _check(kept: Mapping[str, FloatArray], wanted: Mapping[str, FloatArray]) -> None:
    """InputError where a checkpoint does not hold what this training would save."""
    shapes, needed = (
        {name: array.shape for name, array in arrays.items()} for arrays in (kept, wanted)
    )
    if shapes != needed:
        differing = sorted({name for name, _ in shapes.items() ^ needed.items()})
        raise InputError(
            "The checkpoint does not hold the training that goes on.",
            [
                f"Missing, of another size or not known: {listed(differing)}.",
                "Name another file to begin anew.",
            ],
        )
