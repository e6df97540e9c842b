"""Where values and ticks go on an axis, and lines over a pair of axes.

Lines live in a square of 1000 by 1000 units that the page stretches to any width.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fedcox.reports.number_text import power_text, short_text
from fedcox.survival.cohort import FloatArray
from fedcox.survival.event_pieces import MOST_STEPS, nice_step


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


def log_axis(marks: Sequence[tuple[float, str]]) -> ValueAxis:
    """A logarithmic axis from the first of these labelled values to the last."""
    axis = ValueAxis(marks[0][0], marks[-1][0], (), logarithmic=True)
    return axis.with_ticks(marks)


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


MOST_DOTS = 40
STYLES = 8


@dataclass(frozen=True)
class Line:
    """What to draw: points in the units of the axes, in their order.

    Lines of one `style` look the same in every plot of a page; there are eight, each with a
    colour and dashes of its own. `dashes` takes those of another style.
    """

    label: str
    points: Sequence[tuple[float, float]]
    style: int = 0
    dashes: int | None = None


@dataclass(frozen=True)
class DrawnLine:
    """A path through the points, and a dot on each where they are few."""

    label: str
    classes: str
    path: str
    dots: str


@dataclass(frozen=True)
class LinePlot:
    """Drawn lines with the ticks of both axes, in per cent from the left and from the top.

    `level` is a height worth a line of its own, such as that of no difference.
    """

    lines: tuple[DrawnLine, ...]
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    alt: str
    level: float | None = None


def line_plot(
    lines: Sequence[Line],
    across: ValueAxis,
    up: ValueAxis,
    *,
    alt: str,
    level: float | None = None,
    dots: bool = True,
) -> LinePlot:
    """Place every point between the ends of the two axes; points of curves have no dots."""
    return LinePlot(
        lines=tuple(_drawn(line, across, up, dots=dots) for line in lines),
        x_ticks=across.ticks,
        y_ticks=tuple(Tick(round(100 - tick.place, 2), tick.label) for tick in up.ticks),
        alt=alt,
        level=None if level is None else round(1000 - 10 * up.place(level)),
    )


def _drawn(line: Line, across: ValueAxis, up: ValueAxis, *, dots: bool) -> DrawnLine:
    places = [
        (round(10 * across.place(x)), round(1000 - 10 * up.place(y))) for x, y in line.points
    ]
    classes = f"c{line.style % STYLES}"
    if line.dashes is not None:
        classes += f" dash{line.dashes % STYLES}"
    dots = dots and len(places) <= MOST_DOTS
    return DrawnLine(
        line.label,
        classes,
        path="M" + "L".join(f"{x} {y}" for x, y in places) if places else "",
        dots="".join(f"M{x} {y}h0" for x, y in places) if dots else "",
    )


@dataclass(frozen=True)
class TitledPlot:
    """A plot under a title; `quantity` is what an axis of it shows, in the page's words."""

    title: str
    quantity: str
    plot: LinePlot


def ends_in_words(lines: Sequence[Line], text: Callable[[float], str]) -> str:
    """What every line goes from and to, for who cannot see them."""
    return "; ".join(
        f"{line.label} from {text(line.points[0][1])} to {text(line.points[-1][1])}"
        for line in lines
    )
