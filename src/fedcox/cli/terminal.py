"""The terminal that every command writes to, tables and all."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from fedcox.shown_text import shown_lines


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
