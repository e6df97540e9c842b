"""Claims on the terminal: what was stated, what was measured, and whether it held."""

from __future__ import annotations

from collections.abc import Sequence

from rich.markup import escape
from rich.table import Table

from fedcox.evaluation.comparison import Claim


def claims_table(claims: Sequence[Claim], *, title: str, caption: str | None = None) -> Table:
    """One row per claim."""
    table = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        caption=caption,
        caption_justify="left",
    )
    for name in ("statement", "measured", "held"):
        table.add_column(name)
    for claim in claims:
        table.add_row(escape(claim.statement), claim.measured, "yes" if claim.held else "NO")
    return table
