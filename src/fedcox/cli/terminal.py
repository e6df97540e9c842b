"""The terminal that every command writes to: lines, tables, progress, and what to type next."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from fedcox.shown_text import shown_lines

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn


class Terminal(Console):
    """rich's console, but what a terminal would obey is shown, wherever the text is from.

    Colours are rich's own and are added afterwards.
    """

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            if segment.control or segment.text.isprintable():
                yield segment
            else:
                yield Segment(shown_lines(segment.text), segment.style)


def say(text: str, *, err: bool = False) -> None:
    """Print text; what a terminal would obey is shown instead."""
    typer.echo(shown_lines(text), err=err)


def show_page(page: Path) -> None:
    """Where the page is that a command wrote."""
    say(f"The page to read: {page}")


def progress_bar(*columns: ProgressColumn) -> Progress:
    """A bar on standard error with these columns, or rich's usual ones.

    It leaves no trace, and is silent where nobody looks.
    """
    from rich.progress import Progress

    console = Terminal(stderr=True)
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


def spinner() -> Progress:
    """The same for what has no end that is known: something turns, and time goes by."""
    from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

    return progress_bar(SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())


_ABOUT_THIS_RUN = ("--overwrite", "--resume")


def command_given() -> str:
    """The command that this process was started with."""
    return shlex.join(["fedcox", *sys.argv[1:]])


def command_again(*more: str) -> str:
    """The command that this process was started with, as one would type it again.

    Without what concerned the folder as it was, such as --resume; then `more` words.
    """
    words = [word for word in sys.argv[1:] if word not in _ABOUT_THIS_RUN]
    return shlex.join(["fedcox", *words, *more])


def folder_option(folder: Path, usual: str) -> str:
    """How a folder is named in the next command that somebody is told to type.

    ` --folder FOLDER`, or nothing where it is the one that is meant without.
    """
    return "" if folder == Path(usual) else f" --folder {shlex.quote(str(folder))}"
