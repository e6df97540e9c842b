"""The kits that were made, with their passwords: shown once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fedcox.deployment.coordinator_folder import CoordinatorFolder


def show_kits(made: CoordinatorFolder, folder: Path, passwords: dict[str, str]) -> None:
    """One line per kit: for whom, where it lies, what opens it."""
    from rich.markup import escape
    from rich.table import Table

    from fedcox.cli.terminal import Terminal

    console = Terminal(soft_wrap=True)
    console.print(
        f"[bold green]✓[/] [bold]{escape(made.project)}[/] at {escape(made.host)}:{made.port}"
    )
    table = Table("center", "kit", "password")
    for name, password in passwords.items():
        table.add_row(escape(name), escape(str(folder / "kits" / f"{name}.kit")), password)
    console.print(table)
    console.print(
        "Send each hospital its kit, and tell it the password by another way. The passwords "
        "are kept nowhere: note them now."
    )
