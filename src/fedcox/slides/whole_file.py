"""Files put in their place whole, or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from fedcox.errors import OutputError


@contextmanager
def whole_file(path: str | Path) -> Iterator[Path]:
    """A name to write to; what is there takes the place of `path` at the end, and only then.

    The folder is made where it is missing. A reader sees the old file or the new one, never
    half, also after a power failure. Do nothing but write inside: an error of the disk there
    is told as one of `path`.
    """
    target = Path(path)
    # In the same folder, since a rename is atomic only within one file system.
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        yield part
        _to_disk(part)
        part.replace(target)
        _folder_to_disk(target.parent)
    except OSError as error:
        raise OutputError(
            f"Cannot write {target}: {error.strerror or error}.",
            ["Choose a folder that you may write to, with room left on its disk."],
        ) from error
    finally:
        with suppress(OSError):  # its folder may not be one
            part.unlink(missing_ok=True)


def remove_leftovers(path: Path) -> None:
    """Delete what writers of `path` left behind when they were killed; none may be at work."""
    for part in path.parent.glob(f".{_literal(path.name)}.*.part"):
        part.unlink(missing_ok=True)


def _literal(name: str) -> str:
    """A file name as a pattern that matches only itself."""
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in name)


def _to_disk(path: Path) -> None:
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def _folder_to_disk(folder: Path) -> None:
    """The new name itself, where the system lets folders be opened."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:  # Windows
        return
    try:
        os.fsync(handle)
    except OSError:  # some network file systems
        return
    finally:
        os.close(handle)
