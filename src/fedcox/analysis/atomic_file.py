"""Write a file whole or not at all."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from fedcox.errors import OutputError
from fedcox.whole_file import whole_file


def write_atomically(path: str | Path, content: str | bytes | Iterable[str]) -> None:
    """Put bytes, or text (UTF-8) whole or in pieces, at `path`, for its owner only.

    A mistyped folder is not made.
    """
    if not Path(path).parent.is_dir():
        raise OutputError(
            f"Cannot write {path}: No such file or directory.",
            ["Choose a folder that exists and that you may write to."],
        )
    whole = [content] if isinstance(content, str | bytes) else content
    with whole_file(path) as part, part.open("wb") as file:
        file.writelines(one.encode() if isinstance(one, str) else one for one in whole)
