"""A file of lines that one process writes and another reads as it grows."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from fedcox.files.writing import sync_folder


class FollowedFile:
    """Whole lines, each once; those that were there before are passed over."""

    def __init__(self, file: Path, *, from_start: bool = False) -> None:
        self._file = file
        self.unreadable = 0
        self._place = 0 if from_start or not file.exists() else file.stat().st_size

    def lines(self) -> list[str]:
        """What was written since the last look."""
        if not self._file.exists():
            return []
        with self._file.open("rb") as stream:
            stream.seek(self._place)
            content = stream.read()
        whole = content[: content.rfind(b"\n") + 1]
        self._place += len(whole)
        return whole.decode("utf-8", "replace").split("\n")[:-1]

    def rows(self) -> list[dict[str, Any]]:
        """The same for a file of JSON lines; half a line is only counted."""
        parsed = [_row(line) for line in self.lines()]
        rows = [row for row in parsed if row is not None]
        self.unreadable += len(parsed) - len(rows)
        return rows


def append_rows(file: Path, rows: Iterable[Mapping[str, Any]], *, on_disk: bool = True) -> None:
    """Write JSON lines at the end; half a line that is there stays a line of its own.

    `on_disk`: a power cut after this loses none of them. Nobody need wait for that where
    nothing depends on the file.
    """
    text = "".join(json.dumps(dict(row), allow_nan=False) + "\n" for row in rows)
    with file.open("ab+") as stream:
        new = not stream.tell()
        if not new:
            stream.seek(-1, os.SEEK_END)
            text = text if stream.read(1) == b"\n" else "\n" + text
        stream.write(text.encode())
        stream.flush()
        if on_disk:
            os.fsync(stream.fileno())
    if new and on_disk:
        sync_folder(file.parent)


def _row(line: str) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) else None
