"""Training as the paper does it: Adam at a constant rate, for a fixed number of batches.

It ends where the batches end. Whether that is the optimum is not asked, and nothing is
inferred from it: what comes back ranks patients.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fedcox.federation.batch import CellBatch, PatientBatch
from fedcox.federation.query import Federation
from fedcox.federation.setting import Setting
from fedcox.solvers.losses import DiscreteTimeLoss
from fedcox.solvers.solver import Loss, Point, Problem, Step, Watcher
from fedcox.solvers.training import Walk
from fedcox.survival.derivatives import Derivatives, Detail
from fedcox.survival.descent import AdamDescent


@dataclass(frozen=True)
class BatchTraining:
    """`steps` batches, one round each; the defaults are the paper's."""

    learning_rate: float = 1e-3
    steps: int = 5000

    def train(
        self,
        federation: Federation,
        problem: Problem,
        sampler: Sampler,
        watch: Watcher = lambda step: None,
    ) -> Point:
        """Follow the mean loss of each batch, penalty included, from the problem's start."""
        walk = Walk(problem, AdamDescent, sampler.total)
        for number in range(1, self.steps + 1):
            loss = walk.look(sampler.ask(federation, walk.point, number), sampler.size)
            watch(Step(loss * sampler.total, None))
            walk.step(self.learning_rate)
        return walk.point


@dataclass(frozen=True, eq=False)
class Sampler:
    """Draws a batch for every step; the same one however the patients are split.

    A batch holds `size` on average, of `total` in all: patients, or cells. `ask` gives loss and
    gradient, summed over the batch of a step: one round.
    """

    size: float
    total: float
    ask: Callable[[Federation, Point, int], Derivatives]


def patient_sampler(loss: Loss, size: int, total: int, seed: int) -> Sampler:
    """`size` patients a step, with replacement."""

    def ask(federation: Federation, point: Point, step: int) -> Derivatives:
        batch = PatientBatch(seed, step, size, total)
        return loss(federation, point, Detail.GRADIENT, batch)

    return Sampler(size, total, ask)


def cell_sampler(
    size: int, setting: Setting, population: int, total: float, seed: int
) -> Sampler:
    """`size` rows of the stack a step, to rounding, with replacement: see `CellBatch`.

    `total` counts all cells of fitted intervals, halves as one half.
    """
    pairs = population * setting.intervals
    candidates = max(1, round(size * pairs / total))
    loss = DiscreteTimeLoss(setting)

    def ask(federation: Federation, point: Point, step: int) -> Derivatives:
        batch = CellBatch(seed, step, candidates, population, setting.intervals)
        return loss(federation, point, Detail.GRADIENT, batch)

    return Sampler(candidates * total / pairs, total, ask)
