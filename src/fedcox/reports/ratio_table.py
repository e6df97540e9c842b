"""The ratios for the terminal: a rich table, its footer and the warnings."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from fedcox.reports.guarantee_words import epsilon_and_delta, promises_in_short
from fedcox.reports.number_text import DASH
from fedcox.reports.ratio_rows import RatioRow, footer_lines, ratio_rows, warning_title
from fedcox.study.fitted import FittedStudy

_ROOM = 60  # for the lines below a narrow table


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
