"""What a solver is: it decides which parameters to ask about next."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np

from fedcox.federation.batch import PatientBatch
from fedcox.federation.query import Federation
from fedcox.survival.cohort import BoolArray, FloatArray
from fedcox.survival.derivatives import Curvature, Derivatives, Detail
from fedcox.survival.information import Factored, schur_complement

#: Decrement that counts as the optimum where no curvature led there: every coefficient within
#: a hundredth of its standard error.
CLOSE = 1e-4


@dataclass(frozen=True)
class Step:
    """One look at the loss.

    `decrement` is twice the loss that a quadratic model still promises: a distance to the
    optimum in units of the log-likelihood, whatever the scale of covariates and cohort. None
    where the solver has no such model.
    """

    loss: float
    decrement: float | None


Watcher = Callable[[Step], None]


class Point(NamedTuple):
    """Where the loss is looked at, or where a search ended; β are a network's weights, too."""

    alpha: FloatArray
    beta: FloatArray


Patients: TypeAlias = PatientBatch | None
"""Those of a batch; everybody where there is none."""


class Loss(Protocol):
    """A loss as solvers see it: one round of questions gives its derivatives anywhere."""

    def __call__(
        self, federation: Federation, at: Point, detail: Detail, batch: Patients = None
    ) -> Derivatives:
        """Sums over all patients, or over a batch of them."""
        ...


@dataclass(frozen=True, eq=False)
class Beforehand:
    """What is known of a model of constant hazards before the first look at its loss.

    `correlation` of the scaled columns, times the events, is about the information on β.
    """

    events: FloatArray  # (pieces,) in each
    correlation: FloatArray  # (columns, columns)


@dataclass(frozen=True, eq=False)
class Problem:
    """What to minimise: the summed loss plus ½ Σ ridge_j β_j² on the predictor's parameters.

    A model without intervals, such as Cox's, has an empty `alpha`. Under noise nobody may know
    `events` and `cells`, nor `patients` but about.
    """

    loss: Loss
    alpha: FloatArray  # where to start
    beta: FloatArray
    ridge: FloatArray  # (parameters of the predictor,)
    patients: int
    events: float
    beforehand: Beforehand | None = None
    cells: float | None = None  # rows of the stack over all centers, halves as one half
    seed: int = 0  # by which patients are drawn

    @property
    def start(self) -> Point:
        return Point(self.alpha, self.beta)

    def at(self, federation: Federation, point: Point, detail: Detail) -> Derivatives:
        """Loss and derivatives, with the penalty, which the coordinator adds: one round."""
        summed, beta = self.loss(federation, point, detail), point.beta
        loss = summed.loss + 0.5 * float(self.ridge @ beta**2)
        curvature = summed.curvature
        if curvature is not None:
            penalty = np.diag(self.ridge) if curvature.beta.ndim == 2 else self.ridge
            curvature = Curvature(curvature.alpha, curvature.cross, curvature.beta + penalty)
        return Derivatives(loss, summed.alpha, summed.beta + self.ridge * beta, curvature)

    def weight(self, factored: Factored) -> float:
        """What a decrement is compared with: the information on α, about one an event."""
        by_interval = self.alpha.size and factored.curvature.alpha.ndim == 1
        return factored.total if by_interval else self.events


@dataclass(frozen=True, eq=False)
class Solution:
    """Where a solver ended.

    `separated` marks coefficients that grow without bound; `information` is the expected
    information there, penalty included, and `on_beta` what of it is left on β once α is
    estimated too. `decrement` tells how far the optimum still is, by
    that information, where a solver looked.
    """

    alpha: FloatArray
    beta: FloatArray
    loss: float  # penalty included
    converged: bool
    separated: BoolArray
    information: Curvature
    on_beta: FloatArray  # (columns, columns)
    steps: tuple[Step, ...]
    without_effects: FloatArray | None = None  # information on β at the start, if known
    decrement: float | None = None

    @classmethod
    def at(
        cls,
        point: Point,
        last: Derivatives,
        converged: bool,
        steps: Sequence[Step],
        *,
        separated: BoolArray | None = None,
        decrement: float | None = None,
        on_beta: FloatArray | None = None,
    ) -> Solution:
        """The end of a search whose `last` reply held the information."""
        information = full_curvature(last)
        return cls(
            *point,
            last.loss,
            converged,
            np.zeros(point.beta.shape, dtype=np.bool_) if separated is None else separated,
            information,
            schur_complement(information) if on_beta is None else on_beta,
            tuple(steps),
            decrement=decrement,
        )


def full_curvature(reply: Derivatives) -> Curvature:
    """The curvature of a reply that was asked for it."""
    if reply.curvature is None:
        raise ValueError("The reply holds no curvature.")
    return reply.curvature


def newton_step(
    factored: Factored, here: Derivatives
) -> tuple[tuple[FloatArray, FloatArray], float]:
    """H⁻¹g in its α and β parts, and the decrement g·H⁻¹g."""
    alpha, beta = factored.solve(here.alpha, here.beta)
    return (alpha, beta), float(here.alpha @ alpha + here.beta @ beta)


@dataclass
class Search:
    """A search under way: how often it asked, and the steps that were seen."""

    federation: Federation
    problem: Problem
    watch: Watcher
    steps: list[Step] = field(default_factory=list)
    asked: int = 0

    def ask(self, point: Point, detail: Detail) -> Derivatives:
        """One round, penalty included."""
        self.asked += 1
        return self.problem.at(self.federation, point, detail)

    def note(self, loss: float, decrement: float | None = None) -> None:
        """Keep a step, and show it."""
        self.steps.append(Step(loss, decrement))
        self.watch(self.steps[-1])

    def judged(self, point: Point, close: float, *, converged: bool = True) -> Solution:
        """The end where a solver without curvature stopped, as the information judges it.

        One round, which standard errors need anyway; converged is what is `close` as well.
        """
        last, decrement = self.problem.at(self.federation, point, Detail.INFORMATION), np.inf
        if np.isfinite(last.loss):
            _, decrement = newton_step(Factored.of(full_curvature(last)), last)
        decrement = decrement if np.isfinite(decrement) else np.inf
        near = converged and decrement < close
        return Solution.at(point, last, near, self.steps, decrement=decrement)


class AbstractSolver(ABC):
    """Minimises a problem by asking a federation, in as few rounds as it can."""

    @abstractmethod
    def minimise(
        self, federation: Federation, problem: Problem, watch: Watcher = lambda step: None
    ) -> Solution:
        """Ask until the optimum is reached or patience ends; a hard problem is no error."""
