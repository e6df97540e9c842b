"""Write a file whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from fedcox.errors import OutputError


def write_atomically(path: str | Path, content: str | bytes | Iterable[str]) -> None:
    """Put bytes, or text (UTF-8) whole or in pieces, at `path`.

    A reader sees the old file or the new one, never half, also after a power failure.
    """
    target = Path(path)
    # In the same folder, since a rename is atomic only within one file system.
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            whole = [content] if isinstance(content, str | bytes) else content
            file.writelines(one.encode() if isinstance(one, str) else one for one in whole)
            file.flush()
            os.fsync(file.fileno())
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
