"""A file that another process writes line by line, read as it grows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


class FollowedFile:
    """Whole lines, each once; those that were there before are passed over."""

    def __init__(self, file: Path, *, from_start: bool = False) -> None:
        self._file = file
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
        return whole.decode("utf-8").splitlines()

    def rows(self) -> list[dict[str, Any]]:
        """The same for a file of JSON lines."""
        return [json.loads(line) for line in self.lines()]
