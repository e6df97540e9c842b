"""Write a folder whole or not at all, and never over somebody's work."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from fedcox.errors import OutputError
from fedcox.whole_file import give_to_owner, owners_folder


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
