"""The study's covariates with their columns; the ratios in words and digits, and their table.

The terminal's table and the page's table say the same because both are made from these rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from fedcox.data.schema import CategoryColumn, NumberColumn
from fedcox.reports.counts_figure import known_sizes
from fedcox.reports.guarantee_words import epsilon_and_delta, promises_in_short
from fedcox.reports.number_text import (
    DASH,
    bytes_text,
    count_text,
    finite,
    noun_text,
    p_text,
    percent_text,
    ratio_decimals,
    ratio_text,
    short_text,
)
from fedcox.study.fit_rows import Coefficient
from fedcox.study.fitted import FittedStudy

WARNING_TITLES: Mapping[str, str] = {
    "AliasedColumnsWarning": "Columns that repeat what other columns say",
    "ConstantColumnsWarning": "Columns with one value for everybody",
    "EmptyIntervalsWarning": "Intervals without an event",
    "JoinedIntervalsWarning": "Pieces without events, joined",
    "ExactSumsWarning": "Sums without noise between hospitals",
    "CoarseTimeWarning": "Time too coarse for a Cox model",
    "LateEventsWarning": "Events after the horizon",
    "EventsOnlyIntervalsWarning": "Intervals in which everyone had the event",
    "SeparationWarning": "A coefficient without a limit",
    "RidgeWarning": "Coefficients pulled towards zero",
    "NotConvergedWarning": "The fit did not finish",
    "ApproximateSolverWarning": "An approximate result",
    "MissingCenterWarning": "Patients who belong to no center",
    "DoubtfulTimesWarning": "Times that may be dates",
    "FilledCellsWarning": "Missing values filled with the mean",
    "LostCentersWarning": "Centers that stopped answering",
    "NoiseWarning": "What noise changes",
    "LargeDeltaWarning": "A delta that is too large",
}
_ROOM = 60  # for the lines below a narrow table


@dataclass(frozen=True)
class Member:
    """One column: where it stands, what it is called, and what its ratio compares."""

    index: int
    label: str
    compares: str
    level: str | None
    coefficient: Coefficient

    @property
    def estimated(self) -> bool:
        return self.coefficient.coef is not None and not self.coefficient.note


@dataclass(frozen=True)
class CovariateGroup:
    """One covariate of the study with its columns; `reference` is None for a number."""

    name: str
    members: tuple[Member, ...]
    reference: str | None = None
    minimum: float | None = None
    maximum: float | None = None

    def within(self, value: float) -> float:
        """The nearest value that the study allows."""
        low = -math.inf if self.minimum is None else self.minimum
        high = math.inf if self.maximum is None else self.maximum
        return min(high, max(low, value))


def covariate_groups(fitted: FittedStudy) -> tuple[CovariateGroup, ...]:
    """The study's covariates in its order, each with the columns it was encoded into."""
    groups = []
    position = 0
    measured = fitted.guarantee is None  # else means and shares stand for the study's ranges
    for column in fitted.study.schema.covariates:
        width = len(column.encoded_names)
        rows = fitted.coefficients[position : position + width]
        if isinstance(column, CategoryColumn):
            levels = [level for level in column.levels if level != column.reference]
            members = tuple(
                Member(
                    position + i,
                    f"{column.name}: {level}",
                    _against(column.reference, row if measured else None),
                    level,
                    row,
                )
                for i, (level, row) in enumerate(zip(levels, rows, strict=True))
            )
            groups.append(CovariateGroup(column.name, members, reference=column.reference))
        else:
            range_text = _mean_and_sd(rows[0]) if measured else _allowed(column)
            member = Member(position, column.name, f"per unit{range_text}", None, rows[0])
            groups.append(
                CovariateGroup(
                    column.name, (member,), minimum=column.minimum, maximum=column.maximum
                )
            )
        position += width
    return tuple(groups)


def _against(reference: str, row: Coefficient | None) -> str:
    share = "" if row is None else f" · {percent_text(row.mean)} of patients"
    return f"against {reference}{share}"


def _mean_and_sd(row: Coefficient) -> str:
    return f" · mean {short_text(row.mean, 3)}, sd {short_text(row.sd, 3)}"


def _allowed(column: NumberColumn) -> str:
    if column.minimum is None or column.maximum is None:
        return ""
    return f" · {short_text(column.minimum)} to {short_text(column.maximum)} in the study"


@dataclass(frozen=True)
class RatioRow:
    """One line of the ratio table, as text; `note` says why there is no ratio."""

    name: str
    label: str
    compares: str
    ratio: str
    interval: str
    p: str
    coef: str
    se: str
    note: str
    clear: bool


def ratio_rows(fitted: FittedStudy) -> list[RatioRow]:
    """One row per column of the design matrix, in the study's order."""
    return [
        # What stands out must be an effect, not where a solver happened to stop.
        replace(row, clear=row.clear and fitted.converged)
        for group in covariate_groups(fitted)
        for member in group.members
        for row in (_ratio_row(member.coefficient, member.label, member.compares),)
    ]


def _ratio_row(row: Coefficient, label: str, compares: str) -> RatioRow:
    p = finite(row.p)
    decimals, interval = 2, DASH
    if row.interval is not None:
        decimals = ratio_decimals(*row.interval)
        low, high = (ratio_text(bound, decimals) for bound in row.interval)
        interval = f"{low} to {high}"
    return RatioRow(
        name=row.name,
        label=label,
        compares=compares,
        ratio=ratio_text(row.ratio, decimals),
        interval=interval,
        p=p_text(row.p),
        coef=_coefficient_text(row.coef),
        se=_coefficient_text(row.se),
        note=row.note,
        clear=p is not None and p < 0.05,
    )


def _coefficient_text(value: float | None) -> str:
    number = finite(value)
    if number is None:
        return DASH
    if 0 < abs(number) < 0.001:
        return f"{number:.2g}"
    return f"{number:.3f}" if abs(number) < 100 else f"{number:.4g}"


def likelihood_ratio_text(fitted: FittedStudy) -> str | None:
    """The test of all coefficients together, or None where there is no such test."""
    test = fitted.likelihood_ratio if fitted.converged else None
    statistic = None if test is None else finite(test.get("statistic"))
    if test is None or statistic is None:
        return None
    return f"{statistic:,.1f} on {count_text(test['df'])} df, p {_p_phrase(test.get('p'))}"


def no_likelihood_ratio_text(fitted: FittedStudy) -> str:
    """Why there is no such test."""
    if fitted.guarantee is not None:
        return "none, since noise was added to every sum"
    if fitted.study.model.ridge:
        return "none, since with a ridge the likelihood is not at its maximum"
    if all(row.coef is None for row in fitted.coefficients):
        return "none, since no coefficient was estimated"
    return "none, since the fit did not reach the maximum of the likelihood"


def _p_phrase(p: float | None) -> str:
    text = p_text(p)
    return f"= {text}" if text[0].isdigit() else text


def concordance_text(fitted: FittedStudy) -> str | None:
    """Harrell's c-index at three decimals, or None where no two patients can be compared."""
    value = finite(fitted.concordance)
    return None if value is None else f"{value:.3f}"


def no_concordance_text(fitted: FittedStudy) -> str:
    """What keeps the concordance from being computed, if it was not the patients."""
    if known_sizes(fitted.centers) is not None and not fitted.deployed:
        return ""
    return "not computed: it compares patients of different centers"


def footer_lines(fitted: FittedStudy) -> list[str]:
    """The facts below the table: patients, tests, rounds, bytes, and what was seen of whom."""
    dropped = sum(sum(center.dropped.values()) for center in fitted.centers)
    filled = sum(sum(center.filled.values()) for center in fitted.centers)
    counts = (
        (fitted.patients, "patient"),
        (fitted.events, "event"),
        (len(fitted.centers), "center"),
        (fitted.intervals, interval_noun(fitted)),
    )
    lines = [", ".join(noun_text(count, noun) for count, noun in counts if count is not None)]
    if dropped:
        lines.append(f"{noun_text(dropped, 'patient')} left out by the study's rules")
    if filled:
        lines.append(f"{noun_text(filled, 'cell')} without a value filled with the mean")
    lines += _tests(fitted)
    lines.append(
        f"{fitted.ending}; {bytes_text(fitted.bytes_up)} left the centers, "
        f"{bytes_text(fitted.bytes_down)} went to them"
    )
    if fitted.guarantee is None and known_sizes(fitted.centers) is None:
        lines.append("secure sums: nothing of a single center was seen")
    return lines


def _tests(fitted: FittedStudy) -> list[str]:
    if fitted.guarantee is not None:
        return []
    test = likelihood_ratio_text(fitted) or no_likelihood_ratio_text(fitted)
    concordance = concordance_text(fitted) or no_concordance_text(fitted) or DASH
    return [f"likelihood-ratio test {test}", f"concordance {concordance}"]


def interval_noun(fitted: FittedStudy) -> str:
    """What a model calls a part of its time."""
    return "interval" if fitted.grouped else "piece"


def warning_title(name: str) -> str:
    """A warning's class in plain words."""
    return WARNING_TITLES.get(name, name)


def ratio_table(fitted: FittedStudy) -> Table:
    """One row per column of the design matrix, under the link's honest name."""
    inference = fitted.inferred
    table = Table(
        title=escape(fitted.study.name),
        title_justify="left",
        title_style="bold",
        caption="\n".join(escape(line) for line in footer_lines(fitted)),
        caption_justify="left",
        min_width=None if inference else _ROOM,
    )
    table.add_column("covariate", overflow="fold")
    headers = ("95 % interval", "p", "coef (se)") if inference else ("coef",)
    for header in (fitted.ratio_name, *headers):
        table.add_column(header, justify="right", no_wrap=header != fitted.ratio_name)
    for row in ratio_rows(fitted):
        table.add_row(*(_cells(row) if inference else _point_cells(row)))
    return table


def _point_cells(row: RatioRow) -> tuple[RenderableType, ...]:
    if row.note:
        return Text(row.name), Text(DASH, "dim"), Text(row.note, "dim")
    return Text(row.name), Text(row.ratio), Text(row.coef)


def _cells(row: RatioRow) -> tuple[RenderableType, ...]:
    name = Text(row.name)
    if row.note:
        dim = "dim"
        return name, Text(DASH, dim), Text(row.note, dim), Text(DASH, dim), Text(DASH, dim)
    style = "bold" if row.clear else ""
    return (
        name,
        Text(row.ratio, style),
        Text(row.interval),
        Text(row.p, style),
        Text(f"{row.coef} ({row.se})"),
    )


def guarantee_panel(fitted: FittedStudy) -> Panel | None:
    """What differential privacy promises and what it costs, or None without it."""
    if fitted.guarantee is None:
        return None
    lines = [
        Text.assemble((f"{part.title}. ", "bold"), part.text)
        for part in promises_in_short(fitted.guarantee)
    ]
    return Panel(
        Group(*lines),
        title=f"differential privacy: {epsilon_and_delta(fitted.guarantee)}",
        title_align="left",
        border_style="cyan",
    )


def warnings_panel(fitted: FittedStudy) -> Panel | None:
    """What the reader must know before using the numbers, or None when there is nothing."""
    if not fitted.notices:
        return None
    lines = [
        Text.assemble((f"{warning_title(notice.name)}. ", "bold"), notice.text)
        for notice in fitted.notices
    ]
    return Panel(
        Group(*lines), title="read before use", title_align="left", border_style="yellow"
    )
