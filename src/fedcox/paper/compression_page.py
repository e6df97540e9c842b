"""The page on compression: c-index over the bytes that one center sends."""

from __future__ import annotations

import math

from fedcox.paper.compression import DOUBLES, LBFGS_NAME, METHODS, CompressionStudy, claims
from fedcox.reports.number_text import (
    DASH,
    bytes_text,
    count_text,
    percent_text,
    short_text,
    signed_text,
)
from fedcox.reports.page import Fact, page_html
from fedcox.reports.plot import Line, TitledPlot, ValueAxis, line_plot, log_axis, plain_axis

_HEADS = (
    "method",
    "rounds",
    "a round",
    "in all",
    "of doubles",
    "c-index",
    "difference",
    "loss",
)
#: Methods in the figure, each with its colour and dashes; the table has all of them.
_DRAWN = (DOUBLES, "8-bit", "sign", "top 10 %", "top 3 %", "random 10 %", LBFGS_NAME)


def compression_html(result: CompressionStudy, *, command: str) -> str:
    """The page as text."""
    content = {
        "facts": _facts(result),
        "claims": claims(result),
        "figures": [_figure(result, columns) for columns in result.columns],
        "heads": _HEADS,
        "tables": [(columns, _lines(result, columns)) for columns in result.columns],
        "rounds": ", ".join(count_text(rounds) for rounds in result.rounds),
        "rate": short_text(result.learning_rate),
        "result": result,
        "command": command,
        "versions": result.versions,
    }
    return page_html("compression.html.j2", content, "paper")


def _facts(result: CompressionStudy) -> list[Fact]:
    widest = result.columns[-1]

    def fact(method: str) -> Fact:
        run = result.last(method, widest)
        gap = signed_text(result.difference(method, widest)[0])
        detail = f"c-index {run.mean:.3f}, {gap} from doubles"
        return Fact(bytes_text(run.bytes_up), method, detail)

    doubles = result.last(DOUBLES, widest)
    return [
        Fact(
            bytes_text(doubles.bytes_up),
            DOUBLES,
            f"c-index {doubles.mean:.3f}; P = {count_text(widest)}, "
            f"{count_text(doubles.rounds)} rounds",
        ),
        *(fact(name) for name in ("8-bit", "sign", "random 10 %", LBFGS_NAME)),
    ]


def _figure(result: CompressionStudy, columns: int) -> TitledPlot:
    lines = [
        Line(
            name,
            [(run.bytes_up / 1000, run.mean) for run in result.along(name, columns)],
            style,
        )
        for style, name in enumerate(_DRAWN)
    ]
    words = "; ".join(
        f"{line.label} from {line.points[0][1]:.3f} at {short_text(line.points[0][0])} kB to "
        f"{line.points[-1][1]:.3f} at {short_text(line.points[-1][0])} kB"
        for line in lines
    )
    points = [point for line in lines for point in line.points]
    plot = line_plot(
        lines,
        _kilobytes([x for x, _ in points]),
        plain_axis([y for _, y in points]),
        alt=f"C-index over kilobytes. {words}. All numbers are in the table below.",
    )
    return TitledPlot(f"P = {count_text(columns)}", "C-index on unseen patients", plot)


def _kilobytes(sizes: list[float]) -> ValueAxis:
    """Logarithmic, from power of ten to power of ten, the powers written out."""
    first, last = math.floor(math.log10(min(sizes))), math.ceil(math.log10(max(sizes)))
    powers = range(first, max(last, first + 1) + 1)
    return log_axis([(10.0**power, short_text(10.0**power)) for power in powers])


def _lines(result: CompressionStudy, columns: int) -> list[tuple[str, ...]]:
    """Every method after its most rounds."""
    whole = result.last(DOUBLES, columns).bytes_up
    lines: list[tuple[str, ...]] = []
    for method in METHODS:
        run = result.last(method.name, columns)
        gap, error = result.difference(method.name, columns)
        lines.append(
            (
                method.name,
                count_text(run.rounds),
                bytes_text(run.bytes_up / run.rounds),
                bytes_text(run.bytes_up),
                percent_text(run.bytes_up / whole),
                f"{run.mean:.3f} ± {run.spread:.3f}",
                DASH if method.name == DOUBLES else f"{signed_text(gap, 4)} ± {error:.4f}",
                _loss_text(run.loss),
            )
        )
    return lines


def _loss_text(loss: float) -> str:
    """Below a thousandth of a unit of the log-likelihood nothing is to be told apart."""
    return "<0.001" if loss < 0.001 else short_text(loss, 3)
