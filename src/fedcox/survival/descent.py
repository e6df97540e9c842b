"""How a gradient moves a point: straight down, or by Adam's steps of even size."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Literal

import numpy as np

from fedcox.survival.cohort import FloatArray

_FIRST_MOMENT = 0.9
_SECOND_MOMENT = 0.999
_EPSILON = 1e-8


class AbstractDescent(ABC):
    """Moves one point, step by step, in place."""

    def __init__(self, size: int) -> None:
        self._change = np.empty(size)

    @abstractmethod
    def step(self, point: FloatArray, gradient: FloatArray, rate: float) -> None:
        """Move `point` against the gradient of the loss there."""

    @property
    def memory(self) -> dict[str, FloatArray]:
        """Of earlier gradients: all that later steps depend on besides the point."""
        return {}

    def resume(self, memory: Mapping[str, FloatArray]) -> None:  # noqa: B027  # has none
        """Take up the memory that a descent had."""


class GradientDescent(AbstractDescent):
    """Straight down the gradient, `rate` times as far as it is long."""

    def step(self, point: FloatArray, gradient: FloatArray, rate: float) -> None:
        np.multiply(gradient, rate, out=self._change)
        point -= self._change


class AdamDescent(AbstractDescent):
    """Kingma and Ba (2015), with their constants: each coordinate moves by about `rate`."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self._first = np.zeros(size)
        self._second = np.zeros(size)
        self._steps = 0

    def step(self, point: FloatArray, gradient: FloatArray, rate: float) -> None:
        first, second, change = self._first, self._second, self._change
        self._steps += 1
        # Both moments are kept as sums, undivided: what makes means of them, and what they miss
        # having started at zero, is done to numbers, not to arrays.
        first *= _FIRST_MOMENT
        first += gradient
        np.multiply(gradient, gradient, out=change)
        second *= _SECOND_MOMENT
        second += change
        spread = ((1.0 - _SECOND_MOMENT**self._steps) / (1.0 - _SECOND_MOMENT)) ** 0.5
        mean = (1.0 - _FIRST_MOMENT) / (1.0 - _FIRST_MOMENT**self._steps)
        np.sqrt(second, out=change)
        change += _EPSILON * spread
        np.divide(first, change, out=change)
        change *= rate * mean * spread
        point -= change

    @property
    def memory(self) -> dict[str, FloatArray]:
        steps = np.array([self._steps], dtype=np.float64)
        return {"first": self._first.copy(), "second": self._second.copy(), "steps": steps}

    def resume(self, memory: Mapping[str, FloatArray]) -> None:
        self._first[:], self._second[:] = memory["first"], memory["second"]
        self._steps = int(memory["steps"][0])


DescentName = Literal["adam", "sgd"]
DESCENTS: dict[DescentName, type[AbstractDescent]] = {
    "adam": AdamDescent,
    "sgd": GradientDescent,
}
