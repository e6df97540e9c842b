"""What an audit found, for the terminal: patients recovered by attack and protection."""

from __future__ import annotations

import math

from rich.markup import escape
from rich.table import Table

from fedcox.evaluation.audit import Audit, Outcome
from fedcox.evaluation.noise_audit import NoiseAudit
from fedcox.privacy.policy import Policy


def noise_line(noise: NoiseAudit) -> str:
    """What is claimed of the noise behind a question, and what an attack proves."""
    whole = "for all rounds together"
    known = "for one round and a patient who is known to be drawn"
    proven = f"{noise.lower_bound:.3g}" if math.isfinite(noise.lower_bound) else "50"
    told = (
        f"Differential privacy, {noise.question}: epsilon {noise.claimed:.3g} is claimed "
        f"{known if noise.sampled else whole}; an attack on {2 * noise.runs:,} replies proves "
        f"at least {proven}."
    )
    return told if noise.consistent else f"{told} [bold red]The claim is wrong.[/]"


def audit_table(found: Audit) -> Table:
    """One row per attack, one column per protection."""
    table = Table(title="Patients recovered exactly", title_justify="left")
    table.add_column("attack")
    for protection in found.protections:
        table.add_column(protection.value)
    for attack in found.attacks:
        name = f"{attack.name} *" if attack.active else attack.name
        cells = [_cell(attack.outcomes[protection]) for protection in found.protections]
        table.add_row(name, *cells)
    table.caption = "* asks what no honest study asks"
    return table


def _cell(outcome: Outcome) -> str:
    if outcome.recovered:
        return f"[bold red]{outcome.recovered:,}[/]"
    if outcome.refused is not None:
        named = outcome.refused.startswith("[") or outcome.refused in Policy.model_fields
        rule = f": {outcome.refused}" if named else ""
        return escape(f"refused{rule}")
    return "0" if outcome.attacked else "–"
