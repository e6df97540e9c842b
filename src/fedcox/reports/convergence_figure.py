"""How the solver came to rest: the decrement, or the loss, in every round."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedcox.analysis.fitted import FittedStudy
from fedcox.reports.axis import Tick, nice_step, power_ticks
from fedcox.reports.number_text import count_text, finite, power_text, short_text

MOST_ROUNDS = 200
MOST_DOTS = 40


@dataclass(frozen=True)
class ConvergenceFigure:
    """A line in a square of 1000 by 1000 units; `quantity` names the vertical axis."""

    quantity: str
    line: str
    dots: str
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    alt: str


def convergence_figure(fitted: FittedStudy) -> ConvergenceFigure | None:
    """The decrement on a logarithmic axis, or the loss; None where neither is known."""
    decrements = _known([(row.round, row.decrement) for row in fitted.convergence])
    falling = [(number, value) for number, value in decrements if value > 0]
    if falling:
        values = [value for _, value in falling]
        bottom, top, powers = power_ticks(min(values), max(values))
        ticks = [(float(power), power_text(power)) for power in powers]
        points = [(number, math.log10(value)) for number, value in falling]
        return _figure("decrement", points, (bottom, top), ticks, _alt("decrement", falling))
    losses = _known([(row.round, row.loss) for row in fitted.convergence])
    if not losses:
        return None
    ticks = _plain_ticks(losses)
    return _figure("loss", losses, (ticks[0][0], ticks[-1][0]), ticks, _alt("loss", losses))


def _known(points: Sequence[tuple[int, float | None]]) -> list[tuple[int, float]]:
    return [(number, value) for number, raw in points if (value := finite(raw)) is not None]


def _alt(quantity: str, points: Sequence[tuple[int, float]]) -> str:
    first, last = points[0], points[-1]
    return (
        f"The {quantity} goes from {first[1]:.3g} in round {first[0]} "
        f"to {last[1]:.3g} in round {last[0]}."
    )


def _plain_ticks(points: Sequence[tuple[int, float]]) -> list[tuple[float, str]]:
    low, high = min(value for _, value in points), max(value for _, value in points)
    step = nice_step(max(high - low, 1e-9 * max(1.0, abs(high))), 4)
    first = math.floor(low / step)
    last = max(math.ceil(high / step), first + 1)
    return [(step * i, short_text(step * i)) for i in range(first, last + 1)]


def _figure(
    quantity: str,
    points: Sequence[tuple[int, float]],
    limits: tuple[float, float],
    ticks: Sequence[tuple[float, str]],
    alt: str,
) -> ConvergenceFigure:
    points = _thinned(points)
    bottom, top = limits
    first, last = points[0][0], max(points[-1][0], points[0][0] + 1)
    places = [
        (
            round(1000 * (number - first) / (last - first)),
            round(1000 * (top - value) / (top - bottom)),
        )
        for number, value in points
    ]
    return ConvergenceFigure(
        quantity=quantity,
        line="M" + "L".join(f"{x} {y}" for x, y in places),
        dots="".join(f"M{x} {y}h0" for x, y in places) if len(places) <= MOST_DOTS else "",
        x_ticks=_round_ticks(first, last),
        y_ticks=tuple(
            Tick(round(100 * (top - value) / (top - bottom), 2), label)
            for value, label in ticks
        ),
        alt=alt,
    )


def _thinned(points: Sequence[tuple[int, float]]) -> list[tuple[int, float]]:
    if len(points) <= MOST_ROUNDS:
        return list(points)
    keep = np.unique(np.linspace(0, len(points) - 1, MOST_ROUNDS).astype(int))
    return [points[i] for i in keep]


def _round_ticks(first: int, last: int) -> tuple[Tick, ...]:
    step = max(1, round(nice_step(last - first, 8)))
    start = first if last - first <= 8 else math.ceil(first / step) * step
    return tuple(
        Tick(round(100 * (number - first) / (last - first), 2), count_text(number))
        for number in range(start, last + 1, step)
    )
