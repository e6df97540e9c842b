"""Training as the paper does it: Adam at a constant rate, for a fixed number of batches.

It ends where the batches end. Whether that is the optimum is not asked, and nothing is
inferred from it: what comes back ranks patients.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fedcox.federation.query import Federation
from fedcox.solvers.sampling import Sampler
from fedcox.solvers.solver import Problem, Step, Watcher
from fedcox.survival.cohort import FloatArray
from fedcox.survival.descent import AdamDescent


class TrainedPoint(NamedTuple):
    """Where training ended."""

    alpha: FloatArray
    beta: FloatArray


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
        watch: Watcher | None = None,
    ) -> TrainedPoint:
        """Follow the mean loss of each batch, penalty included, from the problem's start."""
        intervals = problem.alpha.size
        point = np.concatenate([problem.alpha, problem.beta])
        gradient = np.empty_like(point)
        descent = AdamDescent(point.size)
        size, total = sampler.size, sampler.total
        ridge, penalised = problem.ridge / total, bool(problem.ridge.any())
        for number in range(1, self.steps + 1):
            alpha, beta = point[:intervals].copy(), point[intervals:].copy()
            summed = sampler.ask(federation, alpha, beta, number)
            gradient[:intervals], gradient[intervals:] = summed.alpha, summed.beta
            gradient /= size
            if penalised:
                gradient[intervals:] += ridge * beta
            if watch is not None:
                penalty = 0.5 * float(problem.ridge @ beta**2)
                watch(Step(summed.loss * total / size + penalty, None))
            descent.step(point, gradient, self.learning_rate)
        return TrainedPoint(point[:intervals], point[intervals:])
