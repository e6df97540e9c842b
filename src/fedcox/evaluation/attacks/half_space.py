"""A cheating coordinator turns β until one patient outweighs all others.

Far out along a direction the hazard of the outermost patient dwarfs the rest, and slopes in β
over slopes in α are that patient's covariates. Turning the direction towards what was found
sets the patient further apart from the others, so that even coefficients of a modest size are
enough. A coarse grid does not help.

Two questions that differ in the first interval's α alone show that interval's part of the
slopes. So a second interval with a high hazard can hide how much one patient weighs in the
first: a screen.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fedcox.errors import RefusedError, SecureSumError
from fedcox.evaluation.attacks.candidate import Candidate
from fedcox.evaluation.attacks.observer import Observer
from fedcox.federation.queries.derivatives import DerivativesAt
from fedcox.federation.setting import Setting
from fedcox.survival.cohort import FloatArray
from fedcox.survival.derivatives import Derivatives, Detail

_TURNS = 12  # of the direction, at most
_STEADY = 2e-3  # a covariate moves by less when nothing else is to be found
_FIRST_LENGTH = 0.5
_HIGHEST = 20.0  # log hazard that a sum in fixed point still holds
_LARGEST_EXPONENT = 300.0
_APART = 1.3  # of the two questions, in α
_SATURATED = 40.0
_SCREEN = 10.0  # how much higher the hazard is behind the first interval
_PATIENCE = 15  # refusals after which the coordinator gives up
#: The part of a step that is allowed: centers before the one that refused have moved on.
_STRIDE = 0.45


@dataclass(frozen=True)
class Reach:
    """How far α and β may be moved: without bounds, or as a hospital's policy allows.

    A coordinator that knows the policy stays inside of it.
    """

    alpha: float = _LARGEST_EXPONENT
    beta: float = 500.0
    alpha_step: float = np.inf
    beta_step: float = np.inf
    rounds: float = np.inf


class _Walk:
    """Asks at one point after the other, in steps that the policy allows."""

    def __init__(self, observer: Observer, setting: Setting, reach: Reach) -> None:
        self._observer, self._setting, self.reach = observer, setting, reach
        self._alpha: FloatArray | None = None
        self._beta = np.zeros(setting.columns)
        self._without: dict[float, dict[str, tuple[FloatArray, float]]] = {}

    def mass(self, source: str, beta: FloatArray, height: float) -> FloatArray | None:
        """Mean covariates of a source, weighted by how much β raises the first hazard.

        `height` is the log hazard ratio of the outermost patient, who is to have a moderate
        hazard there, as far as α reaches.
        """
        bounded = self.reach.alpha < _LARGEST_EXPONENT
        low = self.reach.alpha if bounded else max(height, 10.0)
        if low not in self._without:
            self._without[low] = self._first_interval(-low, np.zeros_like(beta))
        flat, here = self._without[low][source], self._first_interval(-low, beta)[source]
        weighted, weight = here[0] - flat[0], here[1] - flat[1]
        if not np.isfinite(weight) or weight <= 0.0:
            return None
        return np.asarray(weighted / weight)

    def _first_interval(
        self, low: float, beta: FloatArray
    ) -> dict[str, tuple[FloatArray, float]]:
        """Slopes in β and α that the first interval adds when its α is raised a little."""
        # The logit link's hazards end at one: there everybody weighs the same.
        high = _SATURATED if self._setting.link.canonical else low + _SCREEN
        alpha = np.full(self._setting.intervals, min(high, self.reach.alpha))
        alpha[0] = low
        raised = alpha.copy()
        raised[0] = low + _APART
        before, after = self._ask(alpha, beta), self._ask(raised, beta)
        return {
            name: (
                after[name].beta - sums.beta,
                float(after[name].alpha[0] - sums.alpha[0]),
            )
            for name, sums in before.items()
        }

    def _ask(self, alpha: FloatArray, beta: FloatArray) -> dict[str, Derivatives]:
        start = alpha if self._alpha is None else self._alpha
        far = max(
            float(np.abs(alpha - start).max()) / self.reach.alpha_step,
            float(np.linalg.norm(beta - self._beta)) / self.reach.beta_step,
        )
        steps, before = max(1, int(np.ceil(far / _STRIDE))), self._beta
        replies: dict[str, Derivatives] = {}
        for step in range(1, steps + 1):
            part = step / steps
            replies = self._at(start + part * (alpha - start), before + part * (beta - before))
        return replies

    def _at(self, alpha: FloatArray, beta: FloatArray) -> dict[str, Derivatives]:
        query = DerivativesAt(self._setting, alpha, beta, Detail.GRADIENT)
        replies = self._observer.replies(query)
        self._alpha, self._beta = alpha, beta  # not where it was refused
        return replies


def probe_outermost(
    observer: Observer,
    setting: Setting,
    sources: list[str],
    directions: int,
    reach: Reach | None = None,
) -> Iterator[Candidate]:
    """The outermost patients of each source along the first `directions` columns, both ways.

    Claims come as they are found. A refusal ends a direction, and too many of them the attack;
    the first of them is raised in the end.
    """
    walk = _Walk(observer, setting, reach or Reach())
    refusals: list[RefusedError] = []
    for source in sources:
        claimed: list[FloatArray] = []
        for start in _directions(setting.columns, directions):
            try:
                found = _outermost(walk, source, start, setting)
            except RefusedError as error:
                refusals.append(error)
                if len(refusals) >= _PATIENCE:
                    raise
                continue
            if found is not None and not any(_same(found, other) for other in claimed):
                claimed.append(found)
                yield Candidate(found)
    if refusals:
        raise refusals[0]


def _directions(columns: int, number: int) -> Iterator[FloatArray]:
    for column in range(min(columns, (number + 1) // 2)):
        for sign in (1.0, -1.0):
            yield sign * np.eye(columns)[column]


def _outermost(
    walk: _Walk, source: str, direction: FloatArray, setting: Setting
) -> FloatArray | None:
    """Turn towards the outermost patient and go further out, until nobody else counts."""
    reach = walk.reach
    length, before = min(_FIRST_LENGTH, reach.beta), None
    distance = 3.0  # of the outermost patient along the direction, guessed at first
    for _ in range(_TURNS):
        try:
            here = walk.mass(source, length * direction, length * distance)
        except SecureSumError:
            length *= 0.5  # out of the range of a sum in fixed point: not so far
            continue
        if here is None:
            return None
        if before is not None and _same(here, before):
            return here
        before, distance = here, float(np.linalg.norm(here))
        if distance < _STEADY:
            return None
        direction = here / distance
        # With the logit link many patients beyond α's reach have a hazard of one, alike.
        above = 0.0 if setting.link.canonical else _HIGHEST
        length = min(2.0 * length, reach.beta, (reach.alpha + above) / distance)
    return None


def _same(left: FloatArray, right: FloatArray) -> bool:
    return float(np.abs(left - right).max()) < _STEADY
