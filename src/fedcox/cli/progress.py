"""A progress bar on standard error that leaves no trace, and is silent where nobody looks."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn


def progress_bar(*columns: ProgressColumn) -> Progress:
    """A bar with these columns, or rich's usual ones."""
    from rich.progress import Progress

    from fedcox.cli.terminal import Terminal

    console = Terminal(stderr=True)
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
