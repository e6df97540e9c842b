"""L-BFGS scaled by curvature sent once: T + P numbers a round.

A plain L-BFGS needs many rounds to learn scales that are known beforehand. Here they come with
the first reply: the diagonal of the Hessian, or its T-diagonal and P×P block. A time ×
covariate block leaves a center once, in the last round, which standard errors need.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from fedcox.federation.query import Federation
from fedcox.solvers.solver import (
    AbstractSolver,
    Point,
    Problem,
    Search,
    Solution,
    Watcher,
    full_curvature,
)
from fedcox.survival.cohort import FloatArray
from fedcox.survival.derivatives import Curvature, Detail

_SUFFICIENT_DECREASE = 1e-4
_SMALLEST_STEP = 2.0**-30
#: Decrement by the true curvature at the end, where its own model said it has converged.
_CLOSE = 1e-8


@dataclass(frozen=True)
class LBFGS(AbstractSolver):
    """Limited-memory BFGS that starts from the true scale of the problem.

    `scaling` is "diagonal" (T + P numbers once) or "block" (T + P(P+1)/2 once), the better
    choice for correlated covariates. Stops when the decrement that its own curvature model
    promises falls below `tolerance`.
    """

    scaling: Literal["diagonal", "block"] = "diagonal"
    tolerance: float = 1e-12
    max_rounds: int = 500
    memory: int = 10

    def minimise(
        self, federation: Federation, problem: Problem, watch: Watcher = lambda step: None
    ) -> Solution:
        search = Search(federation, problem, watch)
        detail = Detail.DIAGONAL if self.scaling == "diagonal" else Detail.BLOCK
        point = np.concatenate(problem.start)
        first = search.ask(problem.start, detail)
        model = InverseHessian(_scaled_by(full_curvature(first)), self.memory)
        loss, gradient = first.loss, np.concatenate([first.alpha, first.beta])
        converged = False
        while search.asked < self.max_rounds:
            direction = -model.times(gradient)
            decrement = -float(gradient @ direction)
            search.note(loss, decrement)
            if decrement < self.tolerance:
                point, converged = point + direction, True
                break
            found = self._lower(search, point, loss, gradient, direction)
            if found is None:
                # No step lowers the loss any more: the last digits are rounding.
                converged = decrement < 1e-10 * max(1.0, abs(loss))
                break
            new_point, loss, new_gradient = found
            model.learn(new_point - point, new_gradient - gradient)
            point, gradient = new_point, new_gradient
        return search.judged(_parts(problem, point), _CLOSE, converged=converged)

    def _lower(
        self,
        search: Search,
        point: FloatArray,
        loss: float,
        gradient: FloatArray,
        direction: FloatArray,
    ) -> tuple[FloatArray, float, FloatArray] | None:
        """Backtrack along `direction` by cubic interpolation until the loss falls enough."""
        slope = float(gradient @ direction)
        scale = 1.0
        while scale > _SMALLEST_STEP and search.asked < self.max_rounds:
            there = search.ask(
                _parts(search.problem, point + scale * direction), Detail.GRADIENT
            )
            found = np.concatenate([there.alpha, there.beta])
            enough = loss + _SUFFICIENT_DECREASE * scale * slope
            # Near the optimum the loss is flat to rounding; there the slope decides.
            flat = abs(there.loss - loss) <= 1e-12 * abs(loss)
            if there.loss <= enough or (
                flat and abs(float(found @ direction)) <= 0.9 * abs(slope)
            ):
                return point + scale * direction, there.loss, found
            scale *= _shrink(there.loss - loss, slope * scale)
        return None


def _parts(problem: Problem, point: FloatArray) -> Point:
    """A vector (α, β) taken apart."""
    intervals = problem.alpha.size
    return Point(point[:intervals], point[intervals:])


def _shrink(rise: float, slope: float) -> float:
    """Minimiser of the parabola through both ends, kept between a tenth and a half."""
    if not np.isfinite(rise):
        return 0.1
    return float(np.clip(-slope / (2.0 * (rise - slope)), 0.1, 0.5))


Product = Callable[[FloatArray], FloatArray]


def _scaled_by(curvature: Curvature) -> Product:
    """Multiplication by the inverse of the curvature's blocks."""
    alpha = curvature.alpha
    intervals = alpha.size
    if curvature.beta.ndim == 1:
        diagonal = np.concatenate([alpha, curvature.beta])
        return lambda vector: np.asarray(vector / diagonal)
    factor = cho_factor(curvature.beta)
    return lambda vector: np.concatenate(
        [vector[:intervals] / alpha, cho_solve(factor, vector[intervals:])]
    )


class InverseHessian:
    """The two-loop recursion over the last steps, around a fixed first guess."""

    def __init__(self, first_guess: Product, memory: int) -> None:
        self._first_guess = first_guess
        self._pairs: deque[tuple[FloatArray, FloatArray, float]] = deque(maxlen=memory)

    def learn(self, step: FloatArray, change: FloatArray) -> None:
        """Remember that the gradient changed by `change` along `step`."""
        product = float(step @ change)
        if product > 1e-14 * float(np.linalg.norm(step) * np.linalg.norm(change)):
            self._pairs.append((step, change, 1.0 / product))

    def times(self, gradient: FloatArray) -> FloatArray:
        vector = gradient.copy()
        weights = []
        for step, change, inverse in reversed(self._pairs):
            weight = inverse * float(step @ vector)
            vector -= weight * change
            weights.append(weight)
        vector = self._first_guess(vector)
        for (step, change, inverse), weight in zip(self._pairs, reversed(weights), strict=True):
            vector += (weight - inverse * float(change @ vector)) * step
        return vector
