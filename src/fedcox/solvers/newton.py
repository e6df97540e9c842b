"""Newton's method: exact Hessians while they change, then gradients; about six rounds in all.

Where many patients are in one process, a round costs nothing and a Hessian as much as five
gradients. There gradients lead to the optimum and the Hessian comes once, at the end.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fedcox.federation.query import Federation
from fedcox.solvers.profile import Profile
from fedcox.solvers.solver import (
    CLOSE,
    AbstractSolver,
    Point,
    Problem,
    Search,
    Solution,
    Watcher,
    full_curvature,
    newton_step,
)
from fedcox.survival.cohort import FloatArray
from fedcox.survival.derivatives import Derivatives, Detail
from fedcox.survival.information import Factored, schur_complement, separated_columns

#: The decrement per event, r, says how much the Hessian still changes: one more step with a
#: fresh Hessian multiplies the decrement by about r, and so does one with the old Hessian.
#: Below this, the old one is good enough to the end.
_COAST = 1e-5
#: The same where a Hessian costs as much as several rounds.
_COAST_EARLY = 1e-2
#: Where a step with the old Hessian gains less than this factor, a fresh one is asked for.
_SLOW = 0.05
#: A loss that hardly changes any more: time to ask whether some coefficient has no optimum.
_FLAT = 1e-6
_SMALLEST_STEP = 2.0**-30
#: Covariates of all patients together from which on gradients come first; measured.
_MANY = 2**20
#: Gradients that gain less than this factor each are worth less than a Hessian.
_TOO_SLOW = 0.1


@dataclass(frozen=True, eq=False)
class _BentStep:
    """Newton's direction, and by how much α bends away from it.

    When β moves by δ, the mean of exp(β·x) over a risk set grows by a factor of about
    exp(½ δᵀΣδ), Σ the spread of x among those at risk, and every α must fall by as much to
    keep the number of events. A straight step misses that, a bent one saves about one round.
    """

    alpha: FloatArray
    beta: FloatArray
    bend: float

    def taken_from(self, point: Point, scale: float = 1.0) -> Point:
        return Point(
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
        run = _NewtonRun(self, problem, Search(federation, problem, watch))
        return replace(run.to_the_end(), without_effects=run.first)


@dataclass
class _NewtonRun:
    """One minimisation."""

    solver: Newton
    problem: Problem
    search: Search
    first: FloatArray | None = None  # information on β at the start
    coasting: float = _COAST

    def to_the_end(self) -> Solution:
        search = self.search
        point, here = self.begin()
        while search.asked < self.solver.max_rounds:
            factored = Factored.of(full_curvature(here))
            step, decrement = self.towards_optimum(factored, here)
            if decrement < _FLAT and self.first is not None:
                separated = separated_columns(factored.complement, self.first)
                if separated.any():
                    last = search.ask(point, Detail.INFORMATION)
                    return Solution.at(point, last, True, search.steps, separated=separated)
            if self.problem.beforehand is not None and decrement < 10.0 * self.enough:
                # The Hessian of constant hazards is the information.
                point, known = step.taken_from(point), factored.complement
                return Solution.at(point, here, True, search.steps, on_beta=known)
            if decrement < self.coasting * self.problem.weight(factored):
                point, reached = self.coast(step.taken_from(point), factored, decrement)
                if reached is not None:
                    return Solution.at(point, reached, True, search.steps)
                here = search.ask(point, Detail.HESSIAN)
                continue
            moved = self.descend(point, here, step)
            if moved is None:
                break
            point, here = moved
        return search.judged(point, CLOSE, converged=False)

    @property
    def enough(self) -> float:
        """A decrement as good as none."""
        # The more events, the less a given decrement moves any one of the standard errors.
        return self.solver.tolerance * max(1.0, self.problem.events / 1000.0)

    def begin(self) -> tuple[Point, Derivatives]:
        """The first point with a Hessian: where the problem starts, or near the optimum."""
        problem = self.problem
        point = problem.start
        many = problem.patients * problem.beta.size >= _MANY
        profile = (
            Profile.of(problem) if many and self.search.federation.in_one_process else None
        )
        if profile is None:
            here = self.search.ask(point, Detail.HESSIAN)
            self.first = schur_complement(full_curvature(here))
            return point, here
        self.first, self.coasting = profile.information, _COAST_EARLY
        point = self.approach(point, profile)
        return point, self.search.ask(point, Detail.INFORMATION)

    def approach(self, point: Point, profile: Profile) -> Point:
        """By gradients alone, as near to the optimum as they lead quickly."""
        known = [np.inf, np.inf]  # decrements so far
        while self.search.asked < self.solver.max_rounds and profile.look(
            point, self.search.ask(point, Detail.GRADIENT)
        ):
            target, decrement = profile.step()
            self.search.note(profile.loss, decrement)
            if decrement > known[-1]:
                break
            point, gain = target, decrement / known[-1]
            # One step may learn more than it gains; two may not.
            slow = decrement > _TOO_SLOW**2 * known[-2] and len(known) > 3
            if slow or 0.0 < gain * decrement < self.enough:
                return point
            known.append(decrement)
        return profile.last

    def coast(
        self, point: Point, factored: Factored, decrement: float
    ) -> tuple[Point, Derivatives | None]:
        """The last points, with the Hessian there is; a reply only if they reach the optimum.

        Gradients alone are asked for until the next point will be the optimum. That one is
        asked for the expected information too, which standard errors need.
        """
        gain, enough = decrement / self.problem.weight(factored), self.enough
        while gain < _SLOW and self.search.asked < self.solver.max_rounds:
            there = decrement * gain < enough
            reply = self.search.ask(point, Detail.INFORMATION if there else Detail.GRADIENT)
            if there and self.problem.beforehand is not None:
                # The information of constant hazards is the Hessian, and of this very point.
                factored = Factored.of(full_curvature(reply))
            step, found = self.towards_optimum(factored, reply)
            point = step.taken_from(point)
            if there and found < 10.0 * enough:
                return point, reply
            gain, decrement = found / decrement, found
        return point, None

    def towards_optimum(self, factored: Factored, here: Derivatives) -> tuple[_BentStep, float]:
        """Newton's step and the decrement g·H⁻¹g."""
        (alpha, beta), decrement = newton_step(factored, here)
        self.search.note(here.loss, decrement)
        bend = 0.5 * float(beta @ factored.complement @ beta) / self.problem.weight(factored)
        if factored.curvature.alpha.ndim == 2:  # a spline's numbers are not levels
            bend = 0.0
        return _BentStep(-alpha, -beta, bend), decrement

    def descend(
        self, point: Point, here: Derivatives, step: _BentStep
    ) -> tuple[Point, Derivatives] | None:
        """Take the step, halved until the loss falls; None if it never does."""
        scale = 1.0
        while scale > _SMALLEST_STEP and self.search.asked < self.solver.max_rounds:
            there = self.search.ask(step.taken_from(point, scale), Detail.HESSIAN)
            if there.loss <= here.loss + 1e-12 * abs(here.loss):
                return step.taken_from(point, scale), there
            scale *= 0.5
        return None
