"""One line, or a few, on the terminal."""

from __future__ import annotations

import typer

from fedcox.shown_text import shown_lines


def say(text: str, *, err: bool = False) -> None:
    """Print text; what a terminal would obey is shown instead."""
    typer.echo(shown_lines(text), err=err)
