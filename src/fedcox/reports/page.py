"""How a page is made: one HTML file that needs nothing else, from a template."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

from fedcox.files.writing import check_folder, whole_folder, write_atomically, write_json
from fedcox.shown_text import shown_lines


@dataclass(frozen=True)
class Fact:
    """One number of a page's head, with what it counts and one detail."""

    value: str
    label: str
    detail: str = ""


@dataclass(frozen=True)
class PageFolder:
    """A folder with a record and its page, NAME.json and NAME.html; `what` is in it."""

    name: str
    what: str

    @property
    def page(self) -> str:
        return f"{self.name}.html"

    def check(self, folder: Path, *, overwrite: bool) -> None:
        """Refuse a folder that exists, unless it is to be replaced and holds nothing else."""
        files = {f"{self.name}.json", self.page}
        check_folder(
            folder,
            overwrite=overwrite,
            is_ours=lambda path: path.name in files and path.is_file(),
            what=self.what,
        )

    def write(self, folder: Path, record: Mapping[str, Any], html: str) -> None:
        """Both or neither."""
        with whole_folder(folder) as part:
            write_json(part / f"{self.name}.json", record)
            write_atomically(part / self.page, html)


def page_html(template: str, content: Mapping[str, Any], room: str = "reports") -> str:
    """The page as text, of a template of this room; all build on those of the reports.

    Everything placed on it is escaped, and what a terminal would obey is shown by its number:
    names come from files.
    """
    return _templates(room).get_template(template).render(content)


@cache
def _templates(room: str) -> Environment:
    """One for all pages of a process: to compile a template takes longer than to fill it."""
    return Environment(
        loader=ChoiceLoader([PackageLoader(f"fedcox.{each}") for each in (room, "reports")]),
        autoescape=True,
        finalize=_printable,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _printable(value: Any) -> Any:
    return shown_lines(value) if type(value) is str else value
