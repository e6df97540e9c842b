"""Adam, on all patients or on pooled-equivalent batches: the paper's solver."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedcox.errors import InputError
from fedcox.federation.batch import PatientBatch
from fedcox.federation.compression import CompressionName, ErrorFeedback
from fedcox.federation.query import Federation
from fedcox.solvers.compressed_loss import CompressedLoss
from fedcox.solvers.cooling import cooled
from fedcox.solvers.discrete_time_loss import DiscreteTimeLoss
from fedcox.solvers.solver import AbstractSolver, Problem, Solution, Step, Watcher, judged
from fedcox.survival.cohort import FloatArray
from fedcox.survival.derivatives import Detail
from fedcox.survival.descent import AdamDescent

#: Decrement that counts as the optimum: every coefficient within a hundredth of its standard
#: error.
_CLOSE = 1e-4
#: The share of entries that travel where a compression sends some and nobody says how many.
DEFAULT_KEEP = 0.1


@dataclass(frozen=True)
class Adam(AbstractSolver):
    """`steps` rounds of Adam with `learning_rate`, cooled to zero over the second half.

    With `batch_size` each round uses patients drawn over the whole study by `seed`; the path is
    the same however they are split over centers. Without it every patient counts every round.

    With `compression` the gradients travel in fewer bytes; `keep` is the share of entries that
    "top-k" and "random-k" send, and `seed` says which ones the latter does. What a center has
    not sent it adds to its next reply, unless `error_feedback` is off. The path then depends a
    little on the split. The information of the last round is not compressed.
    """

    learning_rate: float = 1e-2
    steps: int = 2000
    batch_size: int | None = None
    seed: int = 0
    compression: CompressionName = "none"
    keep: float | None = None
    error_feedback: bool = True

    def minimise(
        self, federation: Federation, problem: Problem, watch: Watcher = lambda step: None
    ) -> Solution:
        intervals = problem.alpha.size
        point = np.concatenate([problem.alpha, problem.beta])
        descent = AdamDescent(point.size)
        compressed = self._compressed(problem)
        steps: list[Step] = []
        for number in range(1, self.steps + 1):
            here = point.copy()
            loss, gradient = self._mean(federation, problem, compressed, here, number)
            steps.append(Step(loss * problem.patients, None))
            watch(steps[-1])
            descent.step(point, gradient, cooled(self.learning_rate, number, self.steps))
        alpha, beta = point[:intervals], point[intervals:]
        last, decrement = judged(federation, problem, alpha, beta)
        return Solution.at(alpha, beta, last, decrement < _CLOSE, steps, decrement=decrement)

    def _compressed(self, problem: Problem) -> CompressedLoss | None:
        """The loss whose gradients are compressed, made anew for a search; None without."""
        if self.compression == "none":
            return None
        if not isinstance(problem.loss, DiscreteTimeLoss):
            raise InputError(
                "Compression is there for the discrete-time model alone.",
                ['Take compression = "none" for this one.'],
            )
        keep = DEFAULT_KEEP if self.keep is None else self.keep
        feedback = ErrorFeedback() if self.error_feedback else None
        return CompressedLoss(problem.loss.setting, self.compression, keep, self.seed, feedback)

    def _mean(
        self,
        federation: Federation,
        problem: Problem,
        compressed: CompressedLoss | None,
        point: FloatArray,
        number: int,
    ) -> tuple[float, FloatArray]:
        """Loss and gradient per patient, of everyone or of this round's batch."""
        intervals = problem.alpha.size
        alpha, beta = point[:intervals], point[intervals:]
        batch, people = None, problem.patients
        if self.batch_size is not None:
            batch = PatientBatch(self.seed, number, self.batch_size, problem.patients)
            people = self.batch_size
        if compressed is None:
            summed = problem.loss(federation, alpha, beta, Detail.GRADIENT, batch)
        else:
            summed = compressed.at(federation, alpha, beta, number, batch)
        ridge = problem.ridge / problem.patients
        gradient = np.concatenate([summed.alpha, summed.beta]) / people
        gradient[intervals:] += ridge * beta
        return summed.loss / people + 0.5 * float(ridge @ beta**2), gradient
