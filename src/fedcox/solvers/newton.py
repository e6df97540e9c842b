"""Newton's method: the exact Hessian each round, five or six rounds in all."""

from __future__ import annotations

from dataclasses import dataclass, field

from fedcox.federation.query import Federation
from fedcox.solvers.solver import (
    AbstractSolver,
    Problem,
    Solution,
    Step,
    Watcher,
    full_curvature,
    judged,
    newton_step,
)
from fedcox.survival.cohort import BoolArray, FloatArray
from fedcox.survival.derivatives import Derivatives, Detail
from fedcox.survival.schur import Factored, schur_complement
from fedcox.survival.separation import separated_columns

#: The decrement per event, r, says how much the Hessian still changes: one more step with a
#: fresh Hessian multiplies the decrement by about r, and so does one with the old Hessian.
#: Below this, the old one is good enough to the end.
_COAST = 1e-5
#: Where a step with the old Hessian gains less than this factor, a fresh one is asked for.
_SLOW = 0.05
#: A loss that hardly changes any more: time to ask whether some coefficient has no optimum.
_FLAT = 1e-6
_SMALLEST_STEP = 2.0**-30


@dataclass(frozen=True, eq=False)
class _Point:
    """Where the loss is looked at."""

    alpha: FloatArray
    beta: FloatArray


@dataclass(frozen=True, eq=False)
class _Step:
    """Newton's direction, and by how much α bends away from it.

    When β moves by δ, the mean of exp(β·x) over a risk set grows by a factor of about
    exp(½ δᵀΣδ), Σ the spread of x among those at risk, and every α must fall by as much to
    keep the number of events. A straight step misses that, a bent one saves about one round.
    """

    alpha: FloatArray
    beta: FloatArray
    bend: float

    def taken_from(self, point: _Point, scale: float = 1.0) -> _Point:
        return _Point(
            point.alpha + scale * self.alpha - scale**2 * self.bend,
            point.beta + scale * self.beta,
        )


@dataclass(frozen=True)
class Newton(AbstractSolver):
    """Stops at a decrement of about `tolerance` per thousand events, or after `max_rounds`."""

    tolerance: float = 1e-14
    max_rounds: int = 50

    def minimise(
        self, federation: Federation, problem: Problem, watch: Watcher = lambda step: None
    ) -> Solution:
        return _Run(self, federation, problem, watch).to_the_end()


@dataclass
class _Run:
    """One minimisation and its steps so far."""

    solver: Newton
    federation: Federation
    problem: Problem
    watch: Watcher
    steps: list[Step] = field(default_factory=list)
    asked: int = 0
    first: FloatArray | None = None  # information on β at the start

    def to_the_end(self) -> Solution:
        point = _Point(self.problem.alpha, self.problem.beta)
        here = self.ask(point, Detail.HESSIAN)
        self.first = schur_complement(full_curvature(here))
        while self.asked < self.solver.max_rounds:
            factored = Factored.of(full_curvature(here))
            step, decrement = self.towards_optimum(factored, here)
            if decrement < _FLAT and self.first is not None:
                separated = separated_columns(factored.complement, self.first)
                if separated.any():
                    last = self.ask(point, Detail.INFORMATION)
                    return self.give(point, last, True, separated)
            if decrement < _COAST * self.problem.weight(factored):
                point, reached = self.coast(step.taken_from(point), factored, decrement)
                if reached is not None:
                    return self.give(point, reached, True)
                here = self.ask(point, Detail.HESSIAN)
                continue
            moved = self.descend(point, here, step)
            if moved is None:
                break
            point, here = moved
        last, decrement = judged(self.federation, self.problem, point.alpha, point.beta)
        return self.give(point, last, False, decrement=decrement)

    def coast(
        self, point: _Point, factored: Factored, decrement: float
    ) -> tuple[_Point, Derivatives | None]:
        """The last points, with the Hessian there is; a reply only if they reach the optimum.

        Gradients alone are asked for until the next point will be the optimum. That one is
        asked for the expected information too, which standard errors need.
        """
        weight = self.problem.weight(factored)
        gain = decrement / weight
        # The more events, the less a given decrement moves any one of the standard errors.
        enough = self.solver.tolerance * max(1.0, weight / 1000.0)
        while gain < _SLOW and self.asked < self.solver.max_rounds:
            there = decrement * gain < enough
            reply = self.ask(point, Detail.INFORMATION if there else Detail.GRADIENT)
            step, found = self.towards_optimum(factored, reply)
            point = step.taken_from(point)
            if there and found < 10.0 * enough:
                return point, reply
            gain, decrement = found / decrement, found
        return point, None

    def ask(self, point: _Point, detail: Detail) -> Derivatives:
        self.asked += 1
        return self.problem.at(self.federation, point.alpha, point.beta, detail)

    def towards_optimum(self, factored: Factored, here: Derivatives) -> tuple[_Step, float]:
        """Newton's step and the decrement g·H⁻¹g."""
        (alpha, beta), decrement = newton_step(factored, here)
        self.steps.append(Step(here.loss, decrement))
        self.watch(self.steps[-1])
        bend = 0.5 * float(beta @ factored.complement @ beta) / self.problem.weight(factored)
        if factored.curvature.alpha.ndim == 2:  # a spline's numbers are not levels
            bend = 0.0
        return _Step(-alpha, -beta, bend), decrement

    def descend(
        self, point: _Point, here: Derivatives, step: _Step
    ) -> tuple[_Point, Derivatives] | None:
        """Take the step, halved until the loss falls; None if it never does."""
        scale = 1.0
        while scale > _SMALLEST_STEP and self.asked < self.solver.max_rounds:
            there = self.ask(step.taken_from(point, scale), Detail.HESSIAN)
            if there.loss <= here.loss + 1e-12 * abs(here.loss):
                return step.taken_from(point, scale), there
            scale *= 0.5
        return None

    def give(
        self,
        point: _Point,
        last: Derivatives,
        converged: bool,
        separated: BoolArray | None = None,
        decrement: float | None = None,
    ) -> Solution:
        return Solution.at(
            point.alpha,
            point.beta,
            last,
            converged,
            self.steps,
            separated,
            self.first,
            decrement,
        )
