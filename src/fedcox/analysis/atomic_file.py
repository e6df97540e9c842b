"""Write a text file whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from fedcox.errors import OutputError


def write_atomically(path: str | Path, text: str | Iterable[str]) -> None:
    """Put `text` (UTF-8), whole or in pieces, at `path`.

    A reader sees the old file or the new one, never half.
    """
    target = Path(path)
    # In the same folder, since a rename is atomic only within one file system.
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with part.open("w", encoding="utf-8", newline="\n") as file:
            file.writelines([text] if isinstance(text, str) else text)
        part.replace(target)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise OutputError(
            f"Cannot write {target}: {error.strerror or error}.",
            ["Choose a folder that exists and that you may write to."],
        ) from error
    except BaseException:
        part.unlink(missing_ok=True)
        raise
