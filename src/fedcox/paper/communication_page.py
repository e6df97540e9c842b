"""The page on communication: how many numbers each method sends, over T and P."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from fedcox.paper.communication import (
    CLOSE,
    METHODS,
    PAPER_ROUNDS,
    CommunicationStudy,
    Cost,
    Messages,
    slope,
)
from fedcox.reports.number_text import DASH, bytes_text, count_text, short_text
from fedcox.reports.page import Fact, page_html
from fedcox.reports.plot import (
    Line,
    LinePlot,
    TitledPlot,
    ValueAxis,
    ends_in_words,
    line_plot,
    log_axis,
    powers_axis,
)

_ORDERS = {
    "DT-FL, Adam": "O(T + P)",
    "DT-FL, L-BFGS": "O(T + P)",
    "DT-FL, Newton": "O(TP + P²)",
    "WebDISCO, L-BFGS": "O(TP)",
    "WebDISCO, Newton": "O(TP²)",
}
_STYLES = {
    "DT-FL, L-BFGS": 0,
    "DT-FL, Newton": 1,
    "WebDISCO, L-BFGS": 2,
    "WebDISCO, Newton": 3,
    "DT-FL, Adam": 4,
}
#: Adam and L-BFGS ask for the same reply, so that one line stands for both.
_PER_ROUND = {
    "DT-FL, L-BFGS": "DT-FL, gradient (Adam, L-BFGS)",
    "DT-FL, Newton": "DT-FL, Newton",
    "WebDISCO, L-BFGS": "WebDISCO, gradient (L-BFGS)",
    "WebDISCO, Newton": "WebDISCO, Newton",
}
_TOTAL = {
    method.name: f"{method.name}, {PAPER_ROUNDS:,} rounds" if method.multiplied else method.name
    for method in METHODS
}


@dataclass(frozen=True)
class TotalLine:
    """One method on one problem, to the optimum and to its own stop."""

    times: str
    columns: str
    method: str
    per_round: str
    close_rounds: str
    close_bytes: str
    stop_rounds: str
    stop_bytes: str


def communication_html(result: CommunicationStudy, *, command: str) -> str:
    """The page as text."""
    most, widest = result.times[-1], result.columns[-1]
    content = {
        "facts": _facts(result),
        "methods": METHODS,
        "per_round": _plots(result, _PER_ROUND, lambda cost: cost.per_round.numbers_up),
        "total": _plots(result, _TOTAL, lambda cost: (cost.close or cost.stop).bytes),
        "rounds": _round_lines(result),
        "slope_heads": _slope_heads(result),
        "foremost": [
            _total_line(cost)
            for cost in result.costs
            if (cost.times, cost.columns) == (most, widest)
        ],
        "every": [_total_line(cost) for cost in result.costs],
        "result": result,
        "most": count_text(most),
        "widest": count_text(widest),
        "least": count_text(result.times[0]),
        "narrowest": count_text(result.columns[0]),
        "close": short_text(CLOSE),
        "paper_rounds": count_text(PAPER_ROUNDS),
        "command": command,
        "versions": result.versions,
    }
    return page_html("communication.html.j2", content, "paper")


def _facts(result: CommunicationStudy) -> list[Fact]:
    most, widest = result.times[-1], result.columns[-1]

    def sent(method: str) -> Messages:
        return result.cost(method, most, widest).per_round

    ours, theirs = sent("DT-FL, L-BFGS").numbers_up, sent("WebDISCO, L-BFGS").numbers_up
    curved = sent("WebDISCO, Newton").numbers_up
    size = f"T = {count_text(most)}, P = {count_text(widest)}"
    close = result.cost("DT-FL, L-BFGS", most, widest).close
    newton = result.cost("DT-FL, Newton", most, widest).close
    return [
        Fact(count_text(ours), "numbers a round", f"DT-FL, gradient; {size}"),
        Fact(f"{count_text(round(theirs / ours))} ×", "as many", "WebDISCO, gradient"),
        Fact(f"{count_text(round(curved / ours))} ×", "as many", "WebDISCO, Newton"),
        Fact(
            DASH if newton is None else count_text(newton.rounds),
            "rounds to the optimum",
            "DT-FL, Newton",
        ),
        Fact(
            DASH if close is None else count_text(close.rounds),
            "rounds to the optimum",
            "DT-FL, L-BFGS",
        ),
        Fact(
            DASH if close is None else bytes_text(close.bytes),
            "to the optimum",
            "DT-FL, L-BFGS, one center, both ways",
        ),
    ]


def _plots(
    result: CommunicationStudy, methods: Mapping[str, str], measure: Callable[[Cost], int]
) -> tuple[TitledPlot, TitledPlot]:
    """Over T at the most covariates, and over P at the most event times."""
    most, widest = result.times[-1], result.columns[-1]

    def lines(sizes: Sequence[tuple[int, int]], axis: int) -> list[Line]:
        return [
            Line(
                label,
                [(size[axis], measure(result.cost(method, *size))) for size in sizes],
                _STYLES[method],
            )
            for method, label in methods.items()
        ]

    over_times = lines([(times, widest) for times in result.times], 0)
    over_columns = lines([(most, width) for width in result.columns], 1)
    up = powers_axis([value for line in over_times + over_columns for _, value in line.points])
    return (
        TitledPlot(
            f"Over event times, P = {count_text(widest)}",
            "event times T",
            _plot(over_times, result.times, up),
        ),
        TitledPlot(
            f"Over covariates, T = {count_text(most)}",
            "covariates P",
            _plot(over_columns, result.columns, up),
        ),
    )


def _plot(lines: Sequence[Line], sizes: Sequence[int], up: ValueAxis) -> LinePlot:
    return line_plot(
        lines,
        log_axis([(size, count_text(size)) for size in sizes]),
        up,
        alt=f"{ends_in_words(lines, count_text)}. All numbers are in the table below.",
    )


def _slope_heads(result: CommunicationStudy) -> list[tuple[str, str]]:
    """What grows, and what is held."""
    return [
        *(("T", f"P = {count_text(width)}") for width in _ends(result.columns)),
        *(("P", f"T = {count_text(times)}") for times in _ends(result.times)),
    ]


def _ends(sizes: Sequence[int]) -> tuple[int, int]:
    return sizes[0], sizes[-1]


def _round_lines(result: CommunicationStudy) -> list[tuple[str, ...]]:
    """Every method's usual round: its size, and how it grows."""
    least, narrowest = result.times[0], result.columns[0]
    most, widest = result.times[-1], result.columns[-1]

    def sent(method: str, times: int, columns: int) -> int:
        return result.cost(method, times, columns).per_round.numbers_up

    lines = []
    for method in METHODS:
        name = method.name
        slopes = [
            slope(result.times, [sent(name, times, width) for times in result.times])
            for width in _ends(result.columns)
        ] + [
            slope(result.columns, [sent(name, times, width) for width in result.columns])
            for times in _ends(result.times)
        ]
        lines.append(
            (
                name,
                method.per_round,
                _ORDERS[name],
                count_text(sent(name, least, narrowest)),
                count_text(sent(name, most, widest)),
                *(f"{value:.2f}" for value in slopes),
            )
        )
    return lines


def _total_line(cost: Cost) -> TotalLine:
    return TotalLine(
        times=count_text(cost.times),
        columns=count_text(cost.columns),
        method=cost.method,
        per_round=count_text(cost.per_round.numbers_up),
        close_rounds="not run" if cost.close is None else count_text(cost.close.rounds),
        close_bytes=DASH if cost.close is None else bytes_text(cost.close.bytes),
        stop_rounds=count_text(cost.stop.rounds),
        stop_bytes=bytes_text(cost.stop.bytes),
    )
