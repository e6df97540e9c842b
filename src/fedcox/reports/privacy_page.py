"""The page on differential privacy: c-index over epsilon, and the audit of epsilon."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from fedcox.analysis.atomic_file import write_atomically
from fedcox.evaluation.paper_privacy import (
    EACH_CENTER,
    NO_NOISE,
    ONCE,
    TRUTH,
    PrivacyStudy,
    claims,
)
from fedcox.reports.axis import ValueAxis, plain_axis
from fedcox.reports.line_plot import Line, LinePlot, line_plot
from fedcox.reports.number_text import DASH, count_text, one_in_text, short_text, signed_text
from fedcox.reports.page import Fact, page_html

_STYLES = {NO_NOISE: 0, ONCE: 1, EACH_CENTER: 2, TRUTH: 3}


@dataclass(frozen=True)
class WidthPlot:
    """A figure for one number of covariates."""

    title: str
    plot: LinePlot


@dataclass(frozen=True)
class EpsilonLine:
    """One way of fitting at one epsilon."""

    method: str
    epsilon: str
    c_index: str
    lost: str


@dataclass(frozen=True)
class AuditLine:
    """One audit in words."""

    clipped: str
    noise: str
    claimed: str
    proven: str
    moved: str
    verdict: str


def write_privacy_page(
    path: str | Path, result: PrivacyStudy, *, command: str = "fedcox reproduce privacy"
) -> None:
    """Write the page to `path`, whole or not at all."""
    write_atomically(path, privacy_html(result, command=command))


def privacy_html(result: PrivacyStudy, *, command: str) -> str:
    """The page as text."""
    content = {
        "facts": _facts(result),
        "claims": claims(result),
        "figures": [_figure(result, columns) for columns in result.columns],
        "tables": [(columns, _lines(result, columns)) for columns in result.columns],
        "audits": _audits(result),
        "guesses": [
            (short_text(epsilon), _percent(1.0 / (1.0 + math.exp(-epsilon))))
            for epsilon in result.epsilons
        ],
        "runs": count_text(result.audits[0].runs),
        "delta": one_in_text(result.delta),
        "learned": count_text(result.patients - result.tested),
        "result": result,
        "command": command,
        "versions": result.versions,
    }
    return page_html("privacy.html.j2", content)


def _percent(chance: float) -> str:
    """To a tenth, and finer where that would say "always"."""
    return f"{100 * chance:.1f}" if chance < 0.999 else f"{100 * chance:.3f}"


def _facts(result: PrivacyStudy) -> list[Fact]:
    few, many = result.columns[0], result.columns[-1]

    def fact(columns: int, epsilon: float | None) -> Fact:
        method = NO_NOISE if epsilon is None else ONCE
        found = result.found(method, columns, epsilon)
        label = method if epsilon is None else f"at epsilon {short_text(epsilon)}"
        return Fact(f"{found.mean:.3f}", label, f"c-index, P = {count_text(columns)}")

    return [fact(few, None), fact(few, 1.0), fact(many, None), fact(many, 3.0), fact(many, 1.0)]


def _figure(result: PrivacyStudy, columns: int) -> WidthPlot:
    ends = result.epsilons[0], result.epsilons[-1]
    lines = [
        Line(
            name,
            [(epsilon, result.found(name, columns).mean) for epsilon in ends]
            if name in (NO_NOISE, TRUTH)
            else [
                (found, result.found(name, columns, found).mean) for found in result.epsilons
            ],
            style,
        )
        for name, style in _STYLES.items()
    ]
    words = "; ".join(
        f"{line.label} from {line.points[0][1]:.3f} to {line.points[-1][1]:.3f}"
        for line in lines
    )
    across = ValueAxis(*ends, (), logarithmic=True)
    plot = line_plot(
        lines,
        across.with_ticks([(epsilon, short_text(epsilon)) for epsilon in result.epsilons]),
        plain_axis([y for line in lines for _, y in line.points]),
        alt=(
            f"C-index at epsilon {short_text(ends[0])} to {short_text(ends[1])}: {words}. All "
            "numbers are in the table below."
        ),
    )
    return WidthPlot(f"P = {count_text(columns)}", plot)


def _lines(result: PrivacyStudy, columns: int) -> list[EpsilonLine]:
    rows: list[tuple[str, float | None]] = [(TRUTH, None), (NO_NOISE, None)]
    rows += [(name, epsilon) for name in (ONCE, EACH_CENTER) for epsilon in result.epsilons]
    lines = []
    for name, epsilon in rows:
        found = result.found(name, columns, epsilon)
        gap, error = result.lost(name, columns, epsilon)
        lines.append(
            EpsilonLine(
                name,
                DASH if epsilon is None else short_text(epsilon),
                f"{found.mean:.3f} ± {found.spread:.3f}",
                DASH if name == NO_NOISE else f"{signed_text(-gap, 4)} ± {error:.4f}",
            )
        )
    return lines


def _audits(result: PrivacyStudy) -> list[AuditLine]:
    return [
        AuditLine(
            f"by {found.clipped}",
            short_text(found.noise_multiplier),
            f"{found.claimed:.2f}",
            f"{found.lower_bound:.2f}",
            f"{found.moved:.2f}",
            "the claim is wrong" if found.caught else "nothing against the claim",
        )
        for found in result.audits
    ]
