"""`fedcox slides inspect`: what a slide, a mask, tiles, features or weights hold."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def inspect(
    path: Annotated[
        Path,
        typer.Argument(
            metavar="PATH", help="A slide, mask, file of tiles or features, or of weights."
        ),
    ],
) -> None:
    """Tell what a file holds: size, resolution, tiles, encoder; never a patient's values.

    Also features of CLAM, TRIDENT, STAMP, slideflow, Owkin and FLamby.

    Example: fedcox slides inspect work/reduced/SLIDE.h5
    """
    from rich.markup import escape
    from rich.table import Table

    from fedcox.cli.terminal import Terminal
    from fedcox.slides.contents import contents

    found = contents(path)
    table = Table(show_header=False)
    for what, value in found.rows:
        table.add_row(escape(what), escape(value))
    console = Terminal()
    console.print(f"{escape(path.name)}: {escape(found.kind)}", soft_wrap=True, highlight=False)
    console.print(table)
