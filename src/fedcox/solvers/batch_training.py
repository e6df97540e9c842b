"""Training as the paper does it: Adam at a constant rate, for a fixed number of batches.

It ends where the batches end. Whether that is the optimum is not asked, and nothing is
inferred from it: what comes back ranks patients.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from fedcox.federation.batch import CellBatch, PatientBatch
from fedcox.federation.queries.derivatives import DerivativesAt
from fedcox.federation.query import Federation
from fedcox.federation.setting import Setting
from fedcox.solvers.solver import Loss, Point, Problem, Step, Watcher
from fedcox.solvers.training import Walk
from fedcox.survival.cohort import FloatArray
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
            loss = walk.look(sampler.ask(federation, *walk.point, number), sampler.size)
            watch(Step(loss * sampler.total, None))
            walk.step(self.learning_rate)
        return walk.point


class Sampler(Protocol):
    """Draws a batch for every step; the same one however the patients are split."""

    @property
    def size(self) -> float:
        """How much a batch holds on average, in the unit of `total`."""
        ...

    @property
    def total(self) -> float:
        """How much there is in all, patients or cells."""
        ...

    def ask(
        self, federation: Federation, alpha: FloatArray, beta: FloatArray, step: int
    ) -> Derivatives:
        """Loss and gradient, summed over the batch of this step: one round."""
        ...


@dataclass(frozen=True, eq=False)
class PatientSampler:
    """`size` patients a step, with replacement."""

    loss: Loss
    size: int
    total: int
    seed: int

    def ask(
        self, federation: Federation, alpha: FloatArray, beta: FloatArray, step: int
    ) -> Derivatives:
        batch = PatientBatch(self.seed, step, self.size, self.total)
        return self.loss(federation, alpha, beta, Detail.GRADIENT, batch)


@dataclass(frozen=True, eq=False)
class CellSampler:
    """About `size` rows of the stack a step, with replacement: see `CellBatch`.

    `total` counts all cells of fitted intervals, halves as one half.
    """

    setting: Setting
    candidates: int
    population: int
    total: float
    seed: int

    @classmethod
    def of_size(
        cls, size: int, setting: Setting, population: int, total: float, seed: int
    ) -> CellSampler:
        """As many candidates as give `size` cells on average, to rounding."""
        pairs = population * setting.intervals
        return cls(setting, max(1, round(size * pairs / total)), population, total, seed)

    @property
    def size(self) -> float:
        return self.candidates * self.total / (self.population * self.setting.intervals)

    def ask(
        self, federation: Federation, alpha: FloatArray, beta: FloatArray, step: int
    ) -> Derivatives:
        batch = CellBatch(
            self.seed, step, self.candidates, self.population, self.setting.intervals
        )
        return federation.ask(DerivativesAt(self.setting, alpha, beta, Detail.GRADIENT, batch))
