"""What a solver is: it decides which parameters to ask about next."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fedcox.federation.query import Federation
from fedcox.federation.setting import Setting
from fedcox.survival.cohort import BoolArray, FloatArray
from fedcox.survival.derivatives import Curvature, Derivatives


@dataclass(frozen=True)
class Step:
    """One look at the loss.

    `decrement` is twice the loss that a quadratic model still promises: a distance to the
    optimum in units of the log-likelihood, whatever the scale of covariates and cohort.
    """

    loss: float
    decrement: float


Watcher = Callable[[Step], None]


@dataclass(frozen=True, eq=False)
class Problem:
    """What to minimise: the summed loss plus ½ Σ ridge_j β_j² on the scaled coefficients."""

    setting: Setting
    alpha: FloatArray  # where to start
    beta: FloatArray
    ridge: FloatArray  # (columns,)
    patients: int

    def penalised(self, summed: Derivatives, beta: FloatArray) -> Derivatives:
        """The penalty, added once, by the coordinator."""
        loss = summed.loss + 0.5 * float(self.ridge @ beta**2)
        curvature = summed.curvature
        if curvature is not None:
            penalty = np.diag(self.ridge) if curvature.beta.ndim == 2 else self.ridge
            curvature = Curvature(curvature.alpha, curvature.cross, curvature.beta + penalty)
        return Derivatives(loss, summed.alpha, summed.beta + self.ridge * beta, curvature)


@dataclass(frozen=True, eq=False)
class Solution:
    """Where a solver ended.

    `separated` marks coefficients that grow without bound; `information` is the expected
    information near (α, β), penalty included, if the solver has it already.
    """

    alpha: FloatArray
    beta: FloatArray
    loss: float  # penalty included
    converged: bool
    separated: BoolArray
    information: Curvature | None
    steps: tuple[Step, ...]


class AbstractSolver(ABC):
    """Minimises a problem by asking a federation, in as few rounds as it can."""

    @abstractmethod
    def minimise(
        self, federation: Federation, problem: Problem, watch: Watcher = lambda step: None
    ) -> Solution:
        """Ask until the optimum is reached or patience ends; never raises for a hard problem."""
