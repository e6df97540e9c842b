"""The report: one HTML page that needs nothing else, made from a fitted study."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedcox.analysis.atomic_file import write_atomically
from fedcox.analysis.fitted import FittedStudy
from fedcox.reports.convergence_figure import convergence_figure
from fedcox.reports.counts_figure import center_bars, heat_map
from fedcox.reports.curve_figure import average_panel, group_panels, time_axis
from fedcox.reports.forest_figure import forest_figure
from fedcox.reports.ledger_table import ledger_table
from fedcox.reports.number_text import (
    bytes_text,
    count_text,
    noun_text,
    percent_text,
    short_text,
)
from fedcox.reports.page import Fact, page_html
from fedcox.reports.ratio_rows import (
    concordance_text,
    likelihood_ratio_text,
    no_likelihood_ratio_text,
    ratio_rows,
    rounds_text,
    warning_title,
)
from fedcox.reports.reading_notes import limits


@dataclass(frozen=True)
class Advice:
    """A warning in plain words."""

    title: str
    text: str


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
    return {
        "study": fitted.study,
        "unit": fitted.study.schema.unit,
        "ratio_name": fitted.ratio_name,
        "logit": fitted.link == "logit",
        "converged": fitted.converged,
        "rounds": rounds_text(fitted),
        "subtitle": _subtitle(fitted),
        "facts": _facts(fitted),
        "warnings": [
            Advice(warning_title(notice.name), notice.text) for notice in fitted.notices
        ],
        "ratios": list(zip(rows, forest.bars, strict=True)),
        "forest_ticks": forest.ticks,
        "concordance": concordance_text(fitted),
        "likelihood_ratio": likelihood_ratio_text(fitted),
        "no_likelihood_ratio": no_likelihood_ratio_text(fitted),
        "axis": time_axis(fitted),
        "average": average_panel(fitted),
        "panels": list(group_panels(fitted)),
        "centers": center_bars(fitted),
        "heat": heat_map(fitted),
        "convergence": convergence_figure(fitted),
        "ledger": ledger_table(fitted),
        "bytes_up": bytes_text(fitted.bytes_up),
        "bytes_down": bytes_text(fitted.bytes_down),
        "limits": limits(fitted),
        "versions": dict(fitted.versions),
        "command": fitted.command,
    }


def _subtitle(fitted: FittedStudy) -> str:
    link = "complementary log-log" if fitted.link == "cloglog" else "logit"
    return (
        f"{fitted.ratio_name.capitalize()}s from a discrete-time Cox model ({link} link), "
        f"fitted on sums from {noun_text(len(fitted.centers), 'center')}."
    )


def _facts(fitted: FittedStudy) -> list[Fact]:
    patients, events = fitted.patients, fitted.events
    dropped = sum(sum(center.dropped.values()) for center in fitted.centers)
    estimated = sum(row.coef is not None for row in fitted.coefficients)
    unit = fitted.study.schema.unit
    concordance = concordance_text(fitted)
    return [
        Fact(
            count_text(patients),
            "patients",
            f"{count_text(dropped)} more left out" if dropped else "none left out",
        ),
        Fact(
            count_text(events),
            "events",
            f"{percent_text(events / patients)} of patients" if patients else "",
        ),
        Fact(
            count_text(len(fitted.centers)),
            "center" if len(fitted.centers) == 1 else "centers",
            _center_sizes(fitted),
        ),
        Fact(
            count_text(len(fitted.baseline)),
            "interval" if len(fitted.baseline) == 1 else "intervals",
            f"up to {short_text(float(fitted.interval_ends[-1]))} {unit}",
        ),
        Fact(
            count_text(estimated),
            "coefficient" if estimated == 1 else "coefficients",
            f"of {noun_text(len(fitted.coefficients), 'column')}",
        ),
        Fact(concordance or "–", "concordance", "0.5 is chance, 1 is perfect order"),
    ]


def _center_sizes(fitted: FittedStudy) -> str:
    sizes = [center.patients for center in fitted.centers]
    if len(sizes) < 2:
        return ""
    return f"{count_text(min(sizes))} to {count_text(max(sizes))} patients each"
