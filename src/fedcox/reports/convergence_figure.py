"""How the solver came to rest: the decrement, or the loss, in every round."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedcox.reports.axis import ValueAxis, plain_axis, powers_axis
from fedcox.reports.line_plot import Line, LinePlot, line_plot
from fedcox.reports.number_text import count_text, finite
from fedcox.study.fitted import FittedStudy
from fedcox.survival.event_pieces import nice_step

MOST_ROUNDS = 200


@dataclass(frozen=True)
class ConvergenceFigure:
    """One line over the rounds; `quantity` names the vertical axis."""

    quantity: str
    plot: LinePlot


def convergence_figure(fitted: FittedStudy) -> ConvergenceFigure | None:
    """The decrement on a logarithmic axis, or the loss; None where neither is known.

    Under noise neither is: what a round shows then is noise above all.
    """
    if fitted.guarantee is not None:
        return None
    decrements = _known([(row.round, row.decrement) for row in fitted.convergence])
    falling = [(number, value) for number, value in decrements if value > 0]
    if falling:
        return _figure("decrement", falling, powers_axis([value for _, value in falling]))
    losses = _known([(row.round, row.loss) for row in fitted.convergence])
    if not losses:
        return None
    return _figure("loss", losses, plain_axis([value for _, value in losses]))


def _known(points: Sequence[tuple[int, float | None]]) -> list[tuple[int, float]]:
    return [(number, value) for number, raw in points if (value := finite(raw)) is not None]


def _alt(quantity: str, points: Sequence[tuple[int, float]]) -> str:
    first, last = points[0], points[-1]
    return (
        f"The {quantity} goes from {first[1]:.3g} in round {first[0]} "
        f"to {last[1]:.3g} in round {last[0]}."
    )


def _figure(
    quantity: str, points: Sequence[tuple[int, float]], values: ValueAxis
) -> ConvergenceFigure:
    shown = Line(quantity, _thinned(points))
    plot = line_plot([shown], _rounds_axis(points), values, alt=_alt(quantity, points))
    return ConvergenceFigure(quantity, plot)


def _thinned(points: Sequence[tuple[int, float]]) -> list[tuple[int, float]]:
    if len(points) <= MOST_ROUNDS:
        return list(points)
    keep = np.unique(np.linspace(0, len(points) - 1, MOST_ROUNDS).astype(int))
    return [points[i] for i in keep]


def _rounds_axis(points: Sequence[tuple[int, float]]) -> ValueAxis:
    first, last = points[0][0], max(points[-1][0], points[0][0] + 1)
    step = max(1, round(nice_step(last - first, 8)))
    start = first if last - first <= 8 else math.ceil(first / step) * step
    return ValueAxis(first, last, ()).with_ticks(
        [(number, count_text(number)) for number in range(start, last + 1, step)]
    )
