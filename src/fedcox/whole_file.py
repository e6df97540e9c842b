"""Files put in their place whole, or not at all, and for their owner only.

What a study finds is about patients: whoever else has an account on the machine is not to read
it, whatever the umask is. An owner who wants to share a file changes its mode.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from fedcox.errors import OutputError

#: What the owner may do with a file and with a folder, and nobody else.
OWNERS_FILE, OWNERS_FOLDER = 0o600, 0o700


@contextmanager
def whole_file(path: str | Path) -> Iterator[Path]:
    """A file to write to; what is there takes the place of `path` at the end, and only then.

    The folder is made where it is missing. A reader sees the old file or the new one, never
    half, also after a power failure. Do nothing but write inside: an error of the disk there
    is told as one of `path`.
    """
    target = Path(path)
    # In the same folder, since a rename is atomic only within one file system.
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        owners_folder(target.parent)
        part.unlink(missing_ok=True)  # of a process that was cut off and had the same number
        os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNERS_FILE))
        yield part
        part.chmod(OWNERS_FILE)  # whatever wrote it
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


def owners_folder(folder: Path) -> Path:
    """Make a folder for its owner only, where there is none yet."""
    folder.mkdir(mode=OWNERS_FOLDER, parents=True, exist_ok=True)
    return folder


def give_to_owner(folder: Path) -> None:
    """Let nobody else read a folder and what is in it."""
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            path.chmod(OWNERS_FOLDER if path.is_dir() else OWNERS_FILE)


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
