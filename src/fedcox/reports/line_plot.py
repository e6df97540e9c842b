"""Lines over one pair of axes.

They live in a square of 1000 by 1000 units that the page stretches to any width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fedcox.reports.axis import Tick, ValueAxis

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
