"""Federated averaging: centers take steps of their own, and their mean is the next start.

Fewer rounds than Adam's, at the price of another place: where centers differ, the mean of their
own ways does not lead to the optimum over all patients (McMahan et al. 2017).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from fedcox.federation.queries.local_steps import LocalSteps, LocalTraining
from fedcox.federation.query import Federation
from fedcox.solvers.batch_training import TrainedPoint
from fedcox.solvers.cooling import cooled
from fedcox.solvers.discrete_time_loss import DiscreteTimeLoss
from fedcox.solvers.solver import (
    AbstractSolver,
    Problem,
    Solution,
    Step,
    Watcher,
    full_curvature,
    judged,
)
from fedcox.survival.cohort import FloatArray
from fedcox.survival.derivatives import Detail

#: Decrement that counts as the optimum, as for Adam.
_CLOSE = 1e-4
#: A loss above the first one by as much as that is, or by one for each event, which counts
#: where a loss may be below zero: the learning rate is too large.
_TOO_FAR = 1.0

LocalDescent = Literal["scaled", "sgd", "adam"]

#: A scaled step of 1 is about Newton's; a plain one is as long as the slope; one of Adam's
#: moves every parameter by the rate itself, however flat the loss is there.
LEARNING_RATES: Mapping[LocalDescent, float] = {"scaled": 0.2, "sgd": 1.0, "adam": 0.005}


@dataclass(frozen=True)
class FederatedAveraging(AbstractSolver):
    """`rounds` rounds of `local_steps` steps in each center, then the mean by patients.

    `descent` is "scaled": gradient steps divided by the diagonal of the Hessian at the start,
    sent once; "sgd": plain gradient steps; or "adam", begun anew in every round, whose steps of
    even size turn the mean of the centers into something like their median. The learning rate
    – None stands for the one that suits the descent – is constant within a round and cooled to
    zero over the second half of them; where a round led far uphill, the next one starts from
    the best point so far with half the rate. With `cells` a local step looks at that many of
    the center's own stacked rows, drawn by `seed`.
    """

    learning_rate: float | None = None
    rounds: int = 100
    local_steps: int = 5
    descent: LocalDescent = "scaled"
    cells: int | None = None
    seed: int = 0

    @property
    def rate(self) -> float:
        """The learning rate before it is cooled."""
        given = self.learning_rate
        return LEARNING_RATES[self.descent] if given is None else given

    @property
    def pooled_in_the_end(self) -> bool:
        """Whether enough rounds lead to the pooled optimum, however unlike centers are.

        The mean of one gradient step each is a gradient step over all patients.
        """
        return self.local_steps == 1 and self.descent != "adam" and self.cells is None

    def minimise(
        self, federation: Federation, problem: Problem, watch: Watcher = lambda step: None
    ) -> Solution:
        steps: list[Step] = []

        def keep(step: Step) -> None:
            steps.append(step)
            watch(step)

        alpha, beta = self.train(federation, problem, keep)
        last, decrement = judged(federation, problem, alpha, beta)
        return Solution.at(alpha, beta, last, decrement < _CLOSE, steps, decrement=decrement)

    def train(
        self, federation: Federation, problem: Problem, watch: Watcher = lambda step: None
    ) -> TrainedPoint:
        """The mean after the last round, without asking how good it is."""
        training = self._training(federation, problem)
        best = here = TrainedPoint(problem.alpha, problem.beta)
        most = least = np.inf
        slowed = 1.0
        for number in range(1, self.rounds + 1):
            rate = slowed * cooled(self.rate, number, self.rounds)
            ends = federation.ask(LocalSteps(training, *here, rate, number))
            loss = ends.loss + 0.5 * float(problem.ridge @ here.beta**2)
            watch(Step(loss, None))
            if number == 1:
                most = loss + _TOO_FAR * max(abs(loss), problem.events)
            if not loss <= most:
                here, slowed = best, 0.5 * slowed
                continue
            if loss < least:
                best, least = here, loss
            here = TrainedPoint(ends.alpha / ends.patients, ends.beta / ends.patients)
        return here

    def _training(self, federation: Federation, problem: Problem) -> LocalTraining:
        if not isinstance(problem.loss, DiscreteTimeLoss):
            raise TypeError("Federated averaging is there for the discrete-time model alone.")
        scale = np.ones(problem.alpha.size + problem.beta.size)
        if self.descent == "scaled":
            scale = _inverse_curvature(federation, problem)
        return LocalTraining(
            problem.loss.setting,
            problem.ridge / problem.patients,
            scale,
            "adam" if self.descent == "adam" else "sgd",
            self.local_steps,
            self.cells,
            self.seed,
            setting_sent=self.descent == "scaled",
        )


def _inverse_curvature(federation: Federation, problem: Problem) -> FloatArray:
    """One round: the diagonal of the Hessian of the mean loss where the search begins."""
    start = problem.at(federation, problem.alpha, problem.beta, Detail.DIAGONAL)
    curvature = full_curvature(start)
    return problem.patients / np.concatenate([curvature.alpha, curvature.beta])
