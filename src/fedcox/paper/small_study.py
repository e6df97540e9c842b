"""A small study of the paper: its run, its page, and the folder that it leaves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from fedcox.files.writing import check_folder, whole_folder, write_atomically, write_json

#: Hears how many of how many things are done, and what comes next.
Progress = Callable[[int, int, str], None]


class StudyResult(Protocol):
    """What a study gives."""

    def to_json(self) -> dict[str, Any]: ...


@dataclass(frozen=True)
class SmallStudy:
    """`run` takes whether to be quick, and who hears of progress; `html` makes the page."""

    name: str
    run: Callable[..., StudyResult]
    html: Callable[..., str]

    @property
    def page(self) -> str:
        return f"{self.name}.html"

    def check(self, out: Path, *, overwrite: bool) -> None:
        """Refuse a folder that exists, unless it is to be replaced and holds such a study."""
        files = {f"{self.name}.json", self.page}
        check_folder(
            out,
            overwrite=overwrite,
            is_ours=lambda path: path.name in files and path.is_file(),
            what="reproduction",
        )

    def write(self, out: Path, result: StudyResult, *, command: str) -> None:
        """Its numbers and its page, both or neither."""
        with whole_folder(out) as folder:
            write_json(folder / f"{self.name}.json", result.to_json())
            write_atomically(folder / self.page, self.html(result, command=command))
