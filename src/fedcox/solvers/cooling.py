"""How large are steps towards the end? Ever smaller ones come to rest where even ones hover."""

from __future__ import annotations

#: The part of the run, at its end, over which the learning rate falls to zero.
_COOLING = 0.5


def cooled(rate: float, number: int, steps: int) -> float:
    """The learning rate of step `number` = 1 … `steps`: constant, then falling to zero."""
    left = (steps - number + 1) / (_COOLING * steps)
    return rate * min(1.0, left)
