"""What an audit found, for the terminal: patients recovered by attack and protection."""

from __future__ import annotations

from rich.markup import escape
from rich.table import Table

from fedcox.evaluation.audit import Audit
from fedcox.reports.audit_words import Cell, attackers, cell, idle


def attacker_table(found: Audit) -> Table:
    """One row per attacker, one column per protection."""
    table = _table("Who could learn what: patients recovered, by the best attack", found)
    for name, cells in attackers(found):
        table.add_row(name, *[_text(cells[each]) for each in found.protections])
    return table


def attack_table(found: Audit) -> Table:
    """One row per attack, one column per protection."""
    table = _table("Patients recovered exactly, by attack", found)
    for each in found.attacks:
        if each.attack.name in idle(found):
            continue
        name = f"{each.attack.name} *" if each.attack.active else each.attack.name
        cells = [_text(cell(each.outcomes[protection])) for protection in found.protections]
        table.add_row(name, *cells)
    table.caption = "* asks what no honest study asks"
    return table


def _table(title: str, found: Audit) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold")
    table.add_column("")
    for protection in found.protections:
        table.add_column(protection.value)
    return table


def _text(own: Cell) -> str:
    text = f"[bold red]{own.text}[/]" if own.found else own.text
    return f"{text}\n[dim]{escape(own.detail)}[/]" if own.detail else text
