"""Files and folders put in their place whole, or not at all, and for their owner only."""

from __future__ import annotations

import csv
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

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
        with suppress(OSError):  # of Windows and some network file systems, which cannot
            sync_folder(target.parent)
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


@contextmanager
def open_folder(folder: Path) -> Iterator[int]:
    """A handle of a folder, for as long as the block lasts."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        yield handle
    finally:
        os.close(handle)


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the disk: a power cut then loses none."""
    with open_folder(folder) as handle:
        os.fsync(handle)


def replace_file(folder: int, name: str, content: bytes) -> None:
    """Put bytes at `name` in an open folder, whole or not at all, also after a power failure.

    They are for their owner only. The folder is the one that was opened, wherever it is by now;
    OSError where it does not take them. One writer at a time.
    """
    fresh = f"{name}.new"
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    with os.fdopen(os.open(fresh, flags, OWNERS_FILE, dir_fd=folder), "wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
    os.rename(fresh, name, src_dir_fd=folder, dst_dir_fd=folder)
    os.fsync(folder)


def append_to_disk(path: Path, content: bytes) -> None:
    """Write at the end of a file, and wait until it is on the disk."""
    with path.open("ab") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())


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


def write_csv(path: str | Path, rows: Iterable[Iterable[str | int]]) -> None:
    """Put a table at `path`, whole, for its owner only; a folder that is missing is made."""
    with whole_file(path) as part, part.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)


def json_text(record: Any) -> str:
    """A record as it is read by people: indented, in its own letters, with no NaN in it."""
    return json.dumps(record, indent=2, allow_nan=False, ensure_ascii=False)


def write_json(path: str | Path, record: Any) -> None:
    """Put a record at `path`, whole or not at all."""
    write_atomically(path, json_text(record) + "\n")


def check_file(path: Path, *, overwrite: bool) -> None:
    """Refuse a file that exists, before any work is done."""
    if path.exists() and not overwrite:
        raise OutputError(
            f"{path} exists already.", ["Choose another name, or say --overwrite."]
        )


def check_folder(
    folder: str | Path, *, overwrite: bool, is_ours: Callable[[Path], bool], what: str
) -> None:
    """Refuse a folder that exists, unless all it holds is `what` and may be replaced."""
    target = Path(folder)
    if not (target.exists() or target.is_symlink()):
        return
    if not target.is_dir():
        raise OutputError(f"{target} exists and is not a folder.", ["Choose another name."])
    if not overwrite:
        raise OutputError(
            f"The folder {target} exists already.",
            [f"Choose another name, or say --overwrite to replace the {what} in it."],
        )
    here = Path.cwd()
    if target.resolve() in (here, *here.parents):
        raise OutputError(
            f"The folder {target} cannot be replaced while you are in it.",
            ["Name a folder inside it, such as --out run."],
        )
    # --overwrite removes what fedcox wrote, never somebody's work that lies beside it.
    others = sorted(path.name for path in target.iterdir() if not is_ours(path))
    if others or target.is_symlink():
        raise OutputError(
            f"The folder {target} holds more than the {what}: {', '.join(others) or 'a link'}.",
            ["Choose another name, or move these files away."],
        )


@contextmanager
def whole_folder(folder: str | Path) -> Iterator[Path]:
    """A folder to fill; it takes the place of `folder` at the end, and only then.

    It and what is in it are for their owner only.
    """
    target = Path(folder).resolve()  # "." and ".." have no name of their own
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    old = target.with_name(f".{target.name}.{os.getpid()}.old")
    try:
        owners_folder(part)
        yield part
        give_to_owner(part)
        if target.exists():
            target.rename(old)
        part.rename(target)
    except OSError as error:
        raise OutputError(
            f"Cannot write the folder {folder}: {error.strerror or error}.",
            ["Choose a folder inside one that you may write to."],
        ) from error
    finally:
        if old.exists() and not target.exists():
            old.rename(target)
        shutil.rmtree(part, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)
