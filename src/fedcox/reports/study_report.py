"""The report: one HTML page that needs nothing else, made from a fitted study."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedcox.files.writing import write_atomically
from fedcox.reports.counts_figure import center_bars, heat_map, known_sizes
from fedcox.reports.curve_figure import average_panel, group_panels, time_axis, words
from fedcox.reports.forest_figure import forest_figure
from fedcox.reports.guarantee_words import TitledText, promises, right_guesses_text
from fedcox.reports.number_text import (
    DASH,
    bound_text,
    bytes_text,
    count_text,
    finite,
    noun_text,
    one_in_text,
    percent_text,
    short_text,
)
from fedcox.reports.page import Fact, page_html
from fedcox.reports.plot import Line, LinePlot, ValueAxis, line_plot, plain_axis, powers_axis
from fedcox.reports.privacy_ledger import ledger_table
from fedcox.reports.ratio_table import (
    concordance_text,
    interval_noun,
    likelihood_ratio_text,
    no_concordance_text,
    no_likelihood_ratio_text,
    ratio_rows,
    warning_title,
)
from fedcox.reports.report_words import counts_words, ledger_words, limits, sums_from
from fedcox.study.fitted import FittedStudy
from fedcox.survival.event_pieces import nice_step
from fedcox.survival.link import LINKS

MOST_ROUNDS = 200


def write_report(fitted: FittedStudy, path: str | Path) -> None:
    """Write the page to `path`, whole or not at all."""
    write_atomically(path, report_html(fitted))


def report_html(fitted: FittedStudy) -> str:
    """The page as text."""
    return page_html("report.html.j2", page_content(fitted))


def page_content(fitted: FittedStudy) -> dict[str, Any]:
    """Everything the template places on the page."""
    rows = ratio_rows(fitted)
    forest = forest_figure(fitted)
    ledger = ledger_table(fitted)
    return {
        "study": fitted.study,
        "unit": fitted.study.schema.time_unit,
        "ratio_name": fitted.ratio_name,
        "link": LINKS[fitted.link],
        "grouped": fitted.grouped,
        "pieces": noun_text(fitted.intervals, "piece"),
        "time_words": time_words(fitted),
        "state": _state(fitted),
        "ending": fitted.ending,
        "subtitle": _subtitle(fitted),
        "facts": _facts(fitted),
        "warnings": [
            TitledText(warning_title(notice.name), notice.text) for notice in fitted.notices
        ],
        "promises": [] if fitted.guarantee is None else promises(fitted.guarantee),
        "ratios": list(zip(rows, forest.bars, strict=True)),
        "forest_ticks": forest.ticks,
        "inferred": fitted.inferred,
        "explains_concordance": fitted.guarantee is None
        and not (fitted.concordance is None and no_concordance_text(fitted)),
        "likelihood_ratio": likelihood_ratio_text(fitted),
        "no_likelihood_ratio": no_likelihood_ratio_text(fitted),
        "axis": time_axis(fitted),
        "average": average_panel(fitted),
        "panels": list(group_panels(fitted)),
        "panel_words": words(fitted).panels,
        "counts_words": counts_words(fitted),
        "names": [center.name for center in fitted.centers],
        "centers": center_bars(fitted),
        "heat": heat_map(fitted),
        "convergence": convergence_figure(fitted),
        "ledger": ledger,
        "ledger_words": ledger_words(fitted, ledger),
        "bytes_up": bytes_text(fitted.bytes_up),
        "bytes_down": bytes_text(fitted.bytes_down),
        "limits": limits(fitted),
        "versions": dict(fitted.versions),
        "command": fitted.command,
    }


def _subtitle(fitted: FittedStudy) -> str:
    model = "a proportional-hazards model with a piecewise constant baseline"
    if fitted.grouped:
        model = f"a discrete-time Cox model ({LINKS[fitted.link].title} link)"
    return f"{fitted.ratio_name.capitalize()}s from {model}, fitted on {sums_from(fitted)}."


def time_words(fitted: FittedStudy) -> str:
    """Where times stand that are recorded in whole units; nothing where they are exact."""
    if fitted.resolution is None:
        return ""
    unit = fitted.study.schema.time_unit
    step = f"whole {unit}"
    if fitted.resolution != 1:
        step = f"steps of {short_text(fitted.resolution)} {unit}"
    return (
        f"Times are recorded in {step}; an event stands at the middle of its own, so that "
        "events at the same time count as in Efron's method."
    )


def _state(fitted: FittedStudy) -> str:
    """The colour of how the solver ended; under noise to arrive is neither good nor bad."""
    if fitted.guarantee is not None and fitted.inferred:
        return "still"
    return "" if fitted.converged and not fitted.unbounded else "bad"


def _facts(fitted: FittedStudy) -> list[Fact]:
    centers, intervals = len(fitted.centers), fitted.intervals
    estimated = sum(row.coef is not None for row in fitted.coefficients)
    end = short_text(float(fitted.interval_ends[-1]))
    return [
        *_people(fitted),
        Fact(
            count_text(centers), "center" if centers == 1 else "centers", _center_sizes(fitted)
        ),
        Fact(
            count_text(intervals),
            interval_noun(fitted) + "s" * (intervals != 1),
            f"up to {end} {fitted.study.schema.time_unit}{_followed_longer(fitted)}",
        ),
        Fact(
            count_text(estimated),
            "coefficient" if estimated == 1 else "coefficients",
            f"of {noun_text(len(fitted.coefficients), 'column')}",
        ),
        _last_fact(fitted),
    ]


def _followed_longer(fitted: FittedStudy) -> str:
    longer = fitted.followed_longer
    return f"; {count_text(longer)} followed longer" if longer else ""


def _people(fitted: FittedStudy) -> list[Fact]:
    """Patients and events, or what is told in their place."""
    if fitted.guarantee is not None:
        return [
            Fact(
                bound_text(fitted.guarantee.epsilon),
                "epsilon",
                f"with delta {one_in_text(fitted.guarantee.delta)}",
            ),
            Fact(
                right_guesses_text(fitted.guarantee),
                "right guesses at most",
                "at whether a given patient is in it; a coin: 50 %",
            ),
        ]
    patients, events = fitted.patients or 0, fitted.events or 0
    return [
        Fact(count_text(patients), "patients", _left_out(fitted)),
        Fact(
            count_text(events),
            "events",
            f"{percent_text(events / patients)} of patients" if patients else "",
        ),
    ]


def _left_out(fitted: FittedStudy) -> str:
    if known_sizes(fitted.centers) is None:
        return "over all centers"
    if fitted.deployed:
        return "those left out: each center knows"  # nobody asks the centers for it
    dropped = sum(sum(center.dropped.values()) for center in fitted.centers)
    return f"{count_text(dropped)} more left out" if dropped else "none left out"


def _last_fact(fitted: FittedStudy) -> Fact:
    if fitted.guarantee is not None:
        sums = fitted.guarantee.releases
        return Fact(
            count_text(sums),
            "noisy sum" if sums == 1 else "noisy sums",
            "no counts, no concordance"
            if fitted.inferred
            else "no counts, no intervals, no concordance",
        )
    why = no_concordance_text(fitted)
    concordance = concordance_text(fitted)
    return Fact(
        concordance or DASH,
        "concordance",
        why if why and not concordance else "0.5 is chance, 1 is perfect order",
    )


def _center_sizes(fitted: FittedStudy) -> str:
    sizes = known_sizes(fitted.centers)
    if sizes is None:
        return "none was seen alone" if fitted.guarantee is None else "how large is not told"
    if len(sizes) < 2:
        return ""
    return f"{count_text(min(sizes))} to {count_text(max(sizes))} patients each"


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
