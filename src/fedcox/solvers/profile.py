"""Constant hazards profiled out: what is left is a loss of β alone, Cox's in pieces of time.

A gradient at (α, β) tells a_k Σ_i E_ik r_i of each piece k, a_k = exp(α_k), and the best α for
this β is the one that makes it the number of events. So α follows β in closed form, and steps
are about β alone. By how much they go is known beforehand: among those at risk, the covariates
spread about as they do among all patients, and for every event that is the information on β.
Differences between gradients mend it (BFGS).

Where the covariates R-correlated are normal, the mean of x among those at risk, weighted by
r, is R β; as those at risk of most leave, it falls behind. By how much in each piece is seen
in how far its α moves between two looks.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from fedcox.solvers.lbfgs import InverseHessian
from fedcox.solvers.solver import Point, Problem
from fedcox.survival.cohort import FloatArray
from fedcox.survival.derivatives import Derivatives

_MEMORY = 10
#: β must move by this share of its size for the motion of α to be told from rounding.
_MOTION = 0.01
#: A loss that rises by more than rounding.
_RISE = 1e-12


@dataclass(frozen=True, eq=False)
class _Look:
    """One reply, at `beta` and with the best α for it."""

    beta: FloatArray
    alpha: FloatArray
    loss: float
    slopes: tuple[FloatArray, FloatArray]  # in α and in β, where it was asked
    mean: FloatArray  # R β

    @property
    def energy(self) -> float:
        """½ βᵀRβ, by which every α falls where β grows from zero."""
        return 0.5 * float(self.beta @ self.mean)


@dataclass(eq=False)
class Profile:
    """The loss of β alone, and the looks at it so far.

    events      (pieces,) in each
    correlation R, of the scaled columns
    factor      of the information on β, as it is known beforehand
    behind      (pieces,) the mean of x among those at risk is so many times R β
    """

    events: FloatArray
    correlation: FloatArray
    factor: tuple[FloatArray, bool]
    behind: FloatArray
    looks: deque[_Look] = field(default_factory=lambda: deque(maxlen=_MEMORY))

    @classmethod
    def of(cls, problem: Problem) -> Profile | None:
        """None where too little is known beforehand."""
        known = problem.beforehand
        if known is None or not known.events.all():
            return None
        information = problem.events * known.correlation + np.diag(problem.ridge)
        try:
            factor = cho_factor(information)
        except np.linalg.LinAlgError:
            return None
        return cls(known.events, known.correlation, factor, np.ones_like(known.events))

    @property
    def information(self) -> FloatArray:
        """On β, without effects."""
        return np.asarray(self.events.sum() * self.correlation)

    @property
    def loss(self) -> float:
        """At the last look, with the best α."""
        return self.looks[-1].loss

    @property
    def last(self) -> Point:
        """Where the last look was, with the best α."""
        return Point(self.looks[-1].alpha, self.looks[-1].beta)

    def look(self, point: Point, reply: Derivatives) -> bool:
        """Take in a reply; not if the loss rises, or is no number."""
        at_risk = reply.alpha + self.events
        if not (np.isfinite(reply.loss) and (at_risk > 0).all()):
            return False
        excess = np.log(at_risk / self.events)
        loss = reply.loss - float(reply.alpha.sum()) + float(self.events @ excess)
        if self.looks and loss > self.loss + _RISE * abs(loss):
            return False
        slopes = reply.alpha, reply.beta
        mean = self.correlation @ point.beta
        here = _Look(point.beta, point.alpha - excess, loss, slopes, mean)
        if self.looks:
            before = self.looks[-1]
            motion = here.energy - before.energy
            if abs(motion) > _MOTION * here.energy:
                self.behind = (before.alpha - here.alpha) / motion
        self.looks.append(here)
        return True

    def step(self) -> tuple[Point, float]:
        """Where to look next, and the decrement here."""
        inverse = InverseHessian(lambda vector: cho_solve(self.factor, vector), _MEMORY)
        slopes = [self._slope(look) for look in self.looks]
        for (one, other), (slope, next_slope) in zip(
            pairwise(self.looks), pairwise(slopes), strict=True
        ):
            inverse.learn(other.beta - one.beta, next_slope - slope)
        step, here = inverse.times(slopes[-1]), self.looks[-1]
        beta = here.beta - step
        motion = 0.5 * float(beta @ self.correlation @ beta) - here.energy
        return Point(here.alpha - motion * self.behind, beta), float(slopes[-1] @ step)

    def _slope(self, look: _Look) -> FloatArray:
        """In β, with the best α: that is Σ_k (slope in α_k) · (mean of x in piece k) less."""
        alpha, beta = look.slopes
        return np.asarray(beta - float(self.behind @ alpha) * look.mean)
