"""Simulated hospitals on the terminal: patients and events, of many the largest ones."""

from __future__ import annotations

from rich.markup import escape
from rich.table import Table

from fedcox.data.synthetic import SimulatedTable
from fedcox.reports.counts_figure import choose_centers
from fedcox.study.fitted import CenterRow
from fedcox.study.study import Study


def simulation_table(study: Study, simulated: SimulatedTable) -> Table:
    """One row per hospital; where there are many, the small ones are one row."""
    counts = simulated.frame.groupby("hospital", sort=True)["status"].agg(["size", "sum"])
    hospitals = [
        CenterRow(str(name), int(size), int(events))
        for name, size, events in counts.itertuples()
    ]
    choice = choose_centers(hospitals)
    rows = [(row.name, row.patients or 0, row.events or 0) for row in choice.shown]
    if choice.rest:
        rest = [(row.patients or 0, row.events or 0) for row in choice.rest]
        rows.append((choice.rest_name, sum(n for n, _ in rest), sum(n for _, n in rest)))
    table = Table("hospital", title=escape(study.name), title_justify="left")
    table.add_column("patients", justify="right")
    table.add_column("events", justify="right")
    for name, patients, events in rows:
        table.add_row(name, f"{patients:,}", f"{events:,}")
    return table
