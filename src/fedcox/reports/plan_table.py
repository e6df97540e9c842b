"""A plan for the terminal: what noise costs, and what more patients would give."""

from __future__ import annotations

from rich.markup import escape
from rich.table import Table

from fedcox.reports.plan_words import choice_lines, compared_with, headline, size_lines
from fedcox.study.study_plan import StudyPlan


def choice_table(plan: StudyPlan) -> Table:
    """One row for each way to ask for noise."""
    table = Table(
        title=escape(plan.name),
        title_justify="left",
        title_style="bold",
        caption=headline(plan),
        caption_justify="left",
    )
    table.add_column("noise", no_wrap=True)
    for header in ("epsilon", "guesses", "SE"):
        table.add_column(header, justify="right", no_wrap=True)
    for effect in plan.effects:
        table.add_column(effect.label, justify="right", min_width=4)
    table.add_column("promise", min_width=6)
    for line in choice_lines(plan):
        cells = (line.epsilon, line.guesses, line.price, *line.ratios, line.promise)
        asked = f"{line.asked} *" if line.own else line.asked
        table.add_row(asked, *cells, style="bold" if line.own else "")
    return table


def size_table(plan: StudyPlan) -> Table:
    """One row for each number of patients."""
    table = Table(title="With other numbers of patients", title_justify="left")
    for header in ("patients", "events"):
        table.add_column(header, justify="right", no_wrap=True)
    asked = compared_with(plan)
    for header in ("no noise", asked):
        for effect in plan.effects:
            table.add_column(f"{header}, {effect.label}", justify="right")
    table.add_column("epsilon", justify="right", no_wrap=True)
    for line in size_lines(plan):
        cells = (line.patients, line.events, *line.exact, *line.noised, line.epsilon)
        table.add_row(*cells, style="bold" if line.planned else "")
    return table
