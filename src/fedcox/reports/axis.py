"""Where the ticks of an axis go: plain, ratio and powers-of-ten axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from fedcox.reports.number_text import finite, ratio_text, short_text

SMALLEST_REACH = math.log(1.02)
LARGEST_REACH = math.log(100)


@dataclass(frozen=True)
class Tick:
    """A labelled place on an axis, in per cent of its length."""

    place: float
    label: str


@dataclass(frozen=True)
class RatioAxis:
    """A logarithmic axis with one at its centre; `reach` is its half width in logs."""

    reach: float
    ticks: tuple[Tick, ...]

    def place(self, ratio: float) -> float:
        """Per cent of the width from the left, held within the axis."""
        if ratio <= 0:
            return 0.0
        log_ratio = math.log(ratio) if math.isfinite(ratio) else math.inf
        return round(min(100.0, max(0.0, 50 + 50 * log_ratio / self.reach)), 2)


def nice_step(span: float, most: int) -> float:
    """The smallest step of 1, 2, 2.5 or 5 times a power of ten that fits `most` times."""
    rough = span / most
    power = 10.0 ** math.floor(math.log10(rough))
    return next(
        factor * power
        for factor in (1.0, 2.0, 2.5, 5.0, 10.0, 20.0)
        if factor * power >= rough * (1 - 1e-9)
    )


def time_ticks(last: float, *, most: int = 6) -> tuple[float, ...]:
    """Ticks from zero up to `last`, which is above zero."""
    step = nice_step(last, most)
    return tuple(step * i for i in range(math.floor(last / step * (1 + 1e-9)) + 1))


def ratio_axis(bounds: Sequence[float | None]) -> RatioAxis:
    """An axis that holds all `bounds`, or the clinically imaginable part of them."""
    logs = [
        abs(math.log(bound)) for value in bounds if (bound := finite(value)) and bound > 0
    ]
    reach = min(LARGEST_REACH, max(SMALLEST_REACH, 1.06 * max(logs, default=math.log(2))))
    axis = RatioAxis(reach, ())
    return RatioAxis(
        reach,
        tuple(
            Tick(axis.place(ratio), ratio_text(ratio, 4).rstrip("0").rstrip("."))
            for ratio in _ratio_ticks(reach)
        ),
    )


def _ratio_ticks(reach: float) -> list[float]:
    if reach < math.log(3):
        low, high = math.exp(-reach), math.exp(reach)
        step = _unit_fraction(nice_step(high - low, 6))
        first = math.ceil((low - 1) / step)
        return [1 + step * i for i in range(first, math.floor((high - 1) / step) + 1)]
    for upward in ((2.0, 5.0, 10.0, 20.0, 50.0), (3.0, 10.0, 30.0), (10.0, 100.0)):
        within = [ratio for ratio in upward if math.log(ratio) <= reach * 0.97]
        if len(within) <= 3:
            return [*(1 / ratio for ratio in reversed(within)), 1.0, *within]
    return [0.1, 1.0, 10.0]


def _unit_fraction(step: float) -> float:
    """The same step, or the next larger one that meets one exactly: 0.2 does, 0.3 would not."""
    return 1 / max(1, math.floor(1 / step + 1e-9))


def power_ticks(low: float, high: float, *, most: int = 6) -> tuple[int, ...]:
    """Exponents of ten from at or below `low` to at or above `high`; both above zero."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    last = max(last, first + 1)
    step = math.ceil((last - first) / most)
    return tuple(range(first, last + step, step))


def time_tick_marks(ticks: Sequence[float], last: float) -> tuple[Tick, ...]:
    """Times as places on an axis that ends at `last`."""
    return tuple(Tick(round(100 * tick / last, 2), short_text(tick)) for tick in ticks)
