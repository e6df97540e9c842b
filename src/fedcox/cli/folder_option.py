"""How a folder must be named in the next command that somebody is told to type."""

from __future__ import annotations

from pathlib import Path


def folder_option(folder: Path, usual: str) -> str:
    """` --folder FOLDER`, or nothing where it is the one that is meant without."""
    import shlex

    return "" if folder == Path(usual) else f" --folder {shlex.quote(str(folder))}"
