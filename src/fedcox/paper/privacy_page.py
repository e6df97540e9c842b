"""The page on what privacy costs: c-index, error and intervals over epsilon."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from fedcox.paper.privacy import EACH_CENTER, NO_NOISE, SECURE, Judged, PrivacyStudy, claims
from fedcox.reports.number_text import DASH, count_text, one_in_text, short_text, signed_text
from fedcox.reports.page import Fact, page_html
from fedcox.reports.plot import (
    Line,
    LinePlot,
    TitledPlot,
    ValueAxis,
    ends_in_words,
    line_plot,
    log_axis,
    plain_axis,
    powers_axis,
)

_STYLES = {NO_NOISE: 0, SECURE: 1, EACH_CENTER: 2}


_HEADS = (
    "fit",
    "epsilon",
    "c-index",
    "difference",
    "error",
    "arrived",
    "coverage",
    "standard errors",
)


def privacy_html(result: PrivacyStudy, *, command: str) -> str:
    """The page as text."""
    content = {
        "facts": _facts(result),
        "claims": claims(result),
        "figures": [
            figure for columns in result.columns for figure in _figures(result, columns)
        ],
        "heads": _HEADS,
        "tables": [(columns, _lines(result, columns)) for columns in result.columns],
        "guesses": [
            (short_text(epsilon), _percent(1.0 / (1.0 + math.exp(-epsilon))))
            for epsilon in result.epsilons
        ],
        "delta": one_in_text(result.delta),
        "learned": count_text(result.patients - result.tested),
        "result": result,
        "command": command,
        "versions": result.versions,
    }
    return page_html("privacy.html.j2", content, "paper")


def _percent(chance: float) -> str:
    """To a tenth, and finer where that would say "always"."""
    return f"{100 * chance:.1f}" if chance < 0.999 else f"{100 * chance:.3f}"


def _facts(result: PrivacyStudy) -> list[Fact]:
    few, many = result.columns[0], result.columns[-1]

    def fact(columns: int, epsilon: float | None) -> Fact:
        method = NO_NOISE if epsilon is None else SECURE
        judged = result.judgement(method, columns, epsilon)
        label = method if epsilon is None else f"at epsilon {short_text(epsilon)}"
        index = float(np.mean(judged.c_indices))
        return Fact(f"{index:.3f}", label, f"c-index, P = {count_text(columns)}")

    shown = ((few, None), (few, 3.0), (many, None), (many, 10.0), (many, 3.0))
    return [fact(columns, epsilon) for columns, epsilon in shown]


def _figures(result: PrivacyStudy, columns: int) -> list[TitledPlot]:
    """C-index and error, one beside the other."""
    p = f"P = {count_text(columns)}"
    index = _plot(result, columns, "C-index", lambda judged: judged.c_indices, plain_axis)
    error = _plot(result, columns, "Error", lambda judged: judged.errors, powers_axis)
    return [
        TitledPlot(p, "C-index on unseen patients", index),
        TitledPlot(p, "Error of a coefficient", error),
    ]


def _plot(
    result: PrivacyStudy,
    columns: int,
    quantity: str,
    values: Callable[[Judged], Sequence[float]],
    axis: Callable[[Sequence[float]], ValueAxis],
) -> LinePlot:
    def point(name: str, epsilon: float) -> tuple[float, float]:
        given = None if name == NO_NOISE else epsilon
        return epsilon, float(np.mean(values(result.judgement(name, columns, given))))

    ends = result.epsilons[0], result.epsilons[-1]
    lines = [
        Line(name, [point(name, epsilon) for epsilon in result.epsilons], style)
        for name, style in _STYLES.items()
    ]
    words = ends_in_words(lines, "{:.3f}".format)
    return line_plot(
        lines,
        log_axis([(epsilon, short_text(epsilon)) for epsilon in result.epsilons]),
        axis([y for line in lines for _, y in line.points]),
        alt=(
            f"{quantity} at epsilon {short_text(ends[0])} to {short_text(ends[1])}: {words}. "
            "All numbers are in the table below."
        ),
    )


def _lines(result: PrivacyStudy, columns: int) -> list[tuple[str, ...]]:
    rows: list[tuple[str, float | None]] = [(NO_NOISE, None)]
    rows += [(name, epsilon) for name in (SECURE, EACH_CENTER) for epsilon in result.epsilons]
    return [_line(result, result.judgement(name, columns, epsilon)) for name, epsilon in rows]


def _line(result: PrivacyStudy, judged: Judged) -> tuple[str, ...]:
    """One way of fitting at one epsilon."""
    gap, error = result.lost(judged.method, judged.columns, judged.epsilon)
    spread = float(np.std(judged.c_indices, ddof=1))
    exact = judged.method == NO_NOISE
    return (
        judged.method,
        DASH if judged.epsilon is None else short_text(judged.epsilon),
        f"{np.mean(judged.c_indices):.3f} ± {spread:.3f}",
        DASH if exact else f"{signed_text(-gap, 4)} ± {error:.4f}",
        f"{np.mean(judged.errors):.3f}",
        f"{judged.arrived} of {result.studies}",
        _mean(judged.covered, "{:.1%}").replace("%", " %"),
        DASH if exact else _mean(judged.prices, "× {:.2f}"),
    )


def _mean(values: Sequence[float], form: str) -> str:
    return form.format(np.mean(values)) if values else DASH
