"""Where values and ticks go on an axis: plain, ratio and logarithmic axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fedcox.reports.number_text import power_text, ratio_text, short_text
from fedcox.survival.cohort import FloatArray
from fedcox.survival.event_pieces import MOST_STEPS, nice_step

SMALLEST_REACH = math.log(1.02)
LARGEST_REACH = math.log(100)


@dataclass(frozen=True)
class Tick:
    """A labelled place on an axis, in per cent of its length."""

    place: float
    label: str


@dataclass(frozen=True)
class ValueAxis:
    """An axis from `low` to `high`, in logs where `logarithmic`."""

    low: float
    high: float
    ticks: tuple[Tick, ...]
    logarithmic: bool = False

    def place(self, value: float) -> float:
        """Per cent of the length from the low end."""
        low, high = self.low, self.high
        if self.logarithmic:
            low, high, value = math.log(low), math.log(high), math.log(value)
        return round(100 * (value - low) / (high - low), 2)

    def with_ticks(self, values: Sequence[tuple[float, str]]) -> ValueAxis:
        """The same axis with labelled values."""
        ticks = tuple(Tick(self.place(value), label) for value, label in values)
        return replace(self, ticks=ticks)


@dataclass(frozen=True)
class RatioAxis:
    """A logarithmic axis with one at its centre; `reach` is its half width in logs."""

    reach: float
    ticks: tuple[Tick, ...]

    def place(self, ratio: float) -> float:
        """Per cent of the width from the left, held within the axis."""
        log_ratio = math.log(ratio) if ratio > 0 else -math.inf
        return round(min(100.0, max(0.0, 50 + 50 * log_ratio / self.reach)), 2)


def equal_width(ends: FloatArray) -> float | None:
    """The width of the intervals that end at `ends`, or None where they differ."""
    if ends.size == 1:
        return float(ends[0])
    widths = np.diff(ends[:-1], prepend=0.0)  # the horizon may cut the last interval short
    return float(widths[0]) if np.allclose(widths, widths[0]) else None


def time_ticks(ends: FloatArray) -> tuple[float, ...]:
    """Ticks from zero towards the last of `ends`.

    On intervals of one width every tick is an interval's end: between the ends nobody knows
    how many had the event.
    """
    last = float(ends[-1])
    if last <= 0:  # the only event is at time zero
        return (0.0,)
    width = equal_width(ends)
    if width is None:
        step = nice_step(last, MOST_STEPS)
    else:
        rough = max(1.0, ends.size / MOST_STEPS)
        power = 10.0 ** math.floor(math.log10(rough))
        step = width * next(
            math.ceil(factor * power)
            for factor in (1, 2, 3, 4, 5, 6, 8, 10)
            if math.ceil(factor * power) >= rough
        )
    # A short last interval brings its own end: a tick may be at it, but not beyond it.
    ticks = [step * i for i in range(math.floor(last / step * (1 + 1e-9)) + 1)]
    return tuple(ticks) if len(ticks) > 1 else (0.0, last)


def ratio_axis(points: Sequence[float], intervals: Sequence[tuple[float, float]]) -> RatioAxis:
    """An axis that holds every point, and the intervals but for a few far longer than most."""
    spans = sorted(max(_distance(low), _distance(high)) for low, high in intervals)
    usual = spans[len(spans) // 2] if spans else math.log(2)
    farthest = max((_distance(point) for point in points), default=0.0)
    wanted = min(max(spans, default=usual), max(2 * usual, 1.25 * farthest))
    reach = min(LARGEST_REACH, max(SMALLEST_REACH, 1.06 * wanted))
    axis = RatioAxis(reach, ())
    return RatioAxis(
        reach,
        tuple(
            Tick(axis.place(ratio), ratio_text(ratio, 4).rstrip("0").rstrip("."))
            for ratio in _ratio_ticks(reach)
        ),
    )


def _distance(ratio: float) -> float:
    """How far a ratio is from one, in logs, up to the largest axis there is."""
    return min(2 * LARGEST_REACH, abs(math.log(ratio)) if ratio > 0 else math.inf)


def _ratio_ticks(reach: float) -> list[float]:
    if reach < math.log(3):
        low, high = math.exp(-reach), math.exp(reach)
        step = _unit_fraction(nice_step(high - low, 6))
        first = math.ceil((low - 1) / step)
        return [1 + step * i for i in range(first, math.floor((high - 1) / step) + 1)]
    for upward in ((2.0, 5.0, 10.0, 20.0, 50.0), (2.0, 10.0, 50.0), (10.0, 100.0)):
        within = [ratio for ratio in upward if math.log(ratio) <= reach * 0.97]
        # Labels need a tenth of the axis each.
        if math.log(upward[0]) > 0.2 * reach and len(within) <= 3:
            return [*(1 / ratio for ratio in reversed(within)), 1.0, *within]
    return [0.1, 1.0, 10.0]


def _unit_fraction(step: float) -> float:
    """The same step, or the next larger one that meets one exactly: 0.2 does, 0.3 would not."""
    return 1 / max(1, math.floor(1 / step + 1e-9))


def power_ticks(low: float, high: float, *, most: int = 6) -> tuple[int, int, tuple[int, ...]]:
    """Powers of ten around `low` and `high`, both above zero: first, last, the labelled."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    last = max(last, first + 1)
    step = math.ceil((last - first) / most)
    return first, last, tuple(power for power in range(first, last + 1) if power % step == 0)


def plain_axis(values: Sequence[float], *, most: int = 4) -> ValueAxis:
    """An axis around the values, with about `most` steps between round ends."""
    low, high = min(values), max(values)
    if high - low <= 1e-9 * max(1.0, abs(high)):  # one value: room on either side
        low, high = low - 0.05 * (abs(low) or 1.0), high + 0.05 * (abs(high) or 1.0)
    step = nice_step(high - low, most)
    first = math.floor(low / step + 1e-9)
    last = max(math.ceil(high / step - 1e-9), first + 1)
    ticks = [(step * i, short_text(step * i)) for i in range(first, last + 1)]
    return ValueAxis(step * first, step * last, ()).with_ticks(ticks)


def powers_axis(values: Sequence[float], *, most: int = 6) -> ValueAxis:
    """A logarithmic axis between powers of ten around the values, all above zero."""
    first, last, powers = power_ticks(min(values), max(values), most=most)
    ticks = [(10.0**power, power_text(power)) for power in powers]
    return ValueAxis(10.0**first, 10.0**last, (), logarithmic=True).with_ticks(ticks)


def ratios_axis(ratios: Sequence[float]) -> ValueAxis:
    """An axis for ratios, all above zero: plain where they are alike, else logarithmic."""
    low, high = min(ratios), max(ratios)
    if high < 3 * low:
        return plain_axis(ratios)
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    marks = [
        factor * 10.0**power for power in range(first, last + 1) for factor in (1.0, 2.0, 5.0)
    ]
    bottom = max(mark for mark in marks if mark <= low * (1 + 1e-9))
    top = min(mark for mark in marks if mark >= high * (1 - 1e-9))
    shown = [(mark, short_text(mark)) for mark in marks if bottom <= mark <= top]
    return ValueAxis(bottom, top, (), logarithmic=True).with_ticks(shown)


def time_tick_marks(ticks: Sequence[float], last: float) -> tuple[Tick, ...]:
    """Times as places on an axis that ends at `last`."""
    return tuple(Tick(round(100 * tick / last, 2), short_text(tick)) for tick in ticks)
