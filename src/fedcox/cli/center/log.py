"""`fedcox center log`: what has left this hospital."""

from __future__ import annotations

from pathlib import Path

from fedcox.cli.center.start import CenterHome


def log(folder: CenterHome = Path("center")) -> None:
    """Show every reply that left this hospital: when, for which study, how protected.

    The file itself is FOLDER/ledger.jsonl, one reply a line.

    Example: fedcox center log
    """
    from rich.markup import escape
    from rich.table import Table

    from fedcox.cli.terminal import Terminal
    from fedcox.deployment.center_folder import CenterFolder
    from fedcox.files.followed import FollowedFile

    home, console = CenterFolder.read(folder), Terminal()
    ledger = FollowedFile(home.ledger, from_start=True)
    rows = ledger.rows()
    if ledger.unreadable:
        console.print(f"{ledger.unreadable} lines of {home.ledger} cannot be read.")
    if not rows:
        console.print("Nothing has left this hospital.")
        return
    table = Table(title=f"What left {home.name}", title_justify="left")
    for title in ("time", "study", "question"):
        table.add_column(title, no_wrap=title == "time")
    for title in ("numbers", "protection"):
        table.add_column(title, justify="right")
    noised = any(row["epsilon"] is not None for row in rows)
    if noised:
        table.add_column("epsilon", justify="right")
    for row in rows:
        epsilon = row["epsilon"]
        table.add_row(
            row["time"][:19].replace("T", " "),
            escape(row["study"]),
            row["question"],
            f"{row['numbers']:,}",
            row["protection"],
            *(["" if epsilon is None else f"{epsilon:g}"] if noised else []),
        )
    console.print(table)
