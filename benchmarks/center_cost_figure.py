"""The figure of `many_centers`: CPU time per center and round, over the number of centers."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from benchmarks.many_centers import FEW, CenterCost, best_costs
from fedcox.reports.number_text import count_text
from fedcox.reports.plot import Line, LinePlot, ValueAxis, line_plot, plain_axis

_WIDTH, _HEIGHT = 720, 400
_LEFT, _TOP, _RIGHT, _BOTTOM = 60, 108, 40, 56  # of the area around the lines
_STYLE = """
text { font: 13px system-ui, "Segoe UI", Roboto, Arial, sans-serif; fill: #51606e; }
text.title { font-size: 15px; font-weight: 600; fill: #16212b; }
path { fill: none; vector-effect: non-scaling-stroke; }
.grid { stroke: #e6eaee; } .frame { stroke: #b9c3cc; stroke-width: 1.5; }
.c { stroke-width: 2.25; stroke-linejoin: round; }
.dots { stroke-width: 8; stroke-linecap: round; }
.c0 { stroke: #0b5c7a; } .c1 { stroke: #b5480f; } .c.c1 { stroke-dasharray: 8 3; }
"""


def center_cost_svg(costs: Sequence[CenterCost]) -> str:
    """A whole SVG file; the same run gives the same bytes."""
    best = best_costs(costs)
    lines = [
        Line("every center replies for itself, as between hospitals", _points(best, True), 0),
        Line(
            f"centers summed over in groups, as one process does above {FEW} of them",
            _points(best, False),
            1,
        ),
    ]
    some = best[0]
    subtitle = (
        f"A fit with standard errors; {some.patients} patients × {some.columns} covariates in "
        f"each center, {some.intervals} intervals; best of {max(c.repeat for c in costs)}"
    )
    return _svg(_plot(lines), "CPU time per center and round, in µs", subtitle)


def _points(best: Sequence[CenterCost], apart: bool) -> list[tuple[float, float]]:
    return [(cost.centers, cost.microseconds) for cost in best if cost.apart is apart]


def _plot(lines: Sequence[Line]) -> LinePlot:
    sizes = sorted({x for line in lines for x, _ in line.points})
    across = ValueAxis(sizes[0], sizes[-1], (), logarithmic=True)
    words = "; ".join(f"{line.label}: {_ends(line.points)}" for line in lines if line.points)
    return line_plot(
        lines,
        across.with_ticks([(size, count_text(size)) for size in sizes]),
        plain_axis([0.0, *(y for line in lines for _, y in line.points)]),
        alt=f"{words}.",
    )


def _ends(points: Sequence[tuple[float, float]]) -> str:
    """The first and the last point, in words."""
    (first, low), (last, high) = points[0], points[-1]
    return (
        f"{low:.0f} µs with {count_text(first)} centers, {high:.0f} µs with {count_text(last)}"
    )


def _svg(plot: LinePlot, title: str, subtitle: str) -> str:
    wide, high = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM
    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        f'width="{_WIDTH}" height="{_HEIGHT}" role="img">',
        f"<title>{escape(title)}. {escape(plot.alt)}</title>",
        f"<style>{_STYLE}</style>",
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" rx="8" fill="#ffffff"/>',
        f'<text class="title" x="16" y="26">{escape(title)}</text>',
        f'<text x="16" y="45">{escape(subtitle)}</text>',
        *_legend(plot),
        f'<svg x="{_LEFT}" y="{_TOP}" width="{wide}" height="{high}" '
        'viewBox="0 0 1000 1000" preserveAspectRatio="none" overflow="visible">',
        f'<path class="grid" d="{_grid(plot)}"/><path class="frame" d="M0 0V1000H1000"/>',
        *_lines(plot),
        "</svg>",
        *(
            f'<text x="{_LEFT - 10}" y="{_TOP + tick.place * high / 100 + 4:.1f}" '
            f'text-anchor="end">{tick.label}</text>'
            for tick in plot.y_ticks
        ),
        *(
            f'<text x="{_LEFT + tick.place * wide / 100:.1f}" y="{_TOP + high + 20}" '
            f'text-anchor="middle">{tick.label}</text>'
            for tick in plot.x_ticks
        ),
        f'<text x="{_LEFT + wide / 2:.1f}" y="{_HEIGHT - 14}" text-anchor="middle">'
        "centers</text>",
        "</svg>",
    ]
    return "\n".join(drawn) + "\n"


def _grid(plot: LinePlot) -> str:
    return "".join(f"M0 {10 * tick.place:.1f}H1000" for tick in plot.y_ticks)


def _lines(plot: LinePlot) -> list[str]:
    return [
        f'<path class="c {line.classes}" d="{line.path}"/>'
        f'<path class="dots {line.classes}" d="{line.dots}"/>'
        for line in plot.lines
    ]


def _legend(plot: LinePlot) -> list[str]:
    rows = []
    for number, line in enumerate(plot.lines):
        y = 64 + 18 * number
        rows.append(
            f'<path class="c {line.classes}" d="M16 {y - 4}H46"/>'
            f'<text x="54" y="{y}">{escape(line.label)}</text>'
        )
    return rows
