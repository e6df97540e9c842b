"""The documentation as data: its pages, their fenced blocks, headings and links."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"

_FENCE = re.compile(r"```(\w*)\s*$")
_COMMENT = re.compile(r"<!--\s*(.*?)\s*-->\s*$")
_HEADING = re.compile(r"#{1,6}\s+(.*?)\s*$")
_LINK = re.compile(r"\[[^\]\[]*\]\(([^()\s]+)\)")
_CODE = re.compile(r"`[^`\n]+`")


@dataclass(frozen=True)
class Block:
    """One fenced block; `remark` is the HTML comment on the line above it, if there is one."""

    language: str
    text: str
    line: int
    remark: str


@dataclass(frozen=True)
class Page:
    """One Markdown file, taken apart."""

    path: Path
    blocks: tuple[Block, ...]
    prose: str  # everything outside of the fenced blocks

    @property
    def name(self) -> str:
        return self.path.relative_to(ROOT).as_posix()

    @property
    def anchors(self) -> set[str]:
        """Where a link into this page can point, as code hosts name headings."""
        headings = (_HEADING.match(line) for line in self.prose.splitlines())
        return {_slug(heading[1]) for heading in headings if heading}

    @property
    def links(self) -> list[str]:
        return _LINK.findall(_CODE.sub("", self.prose))

    @property
    def code(self) -> list[str]:
        """Every inline piece of code."""
        return [piece.strip("`") for piece in _CODE.findall(self.prose)]


def page(path: Path) -> Page:
    """Read one page."""
    blocks: list[Block] = []
    prose: list[str] = []
    inside: list[str] | None = None
    language, start = "", 0
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        fence = _FENCE.match(line)
        if inside is None and fence:
            inside, language, start = [], fence[1], number
        elif inside is not None and line.strip() == "```":
            blocks.append(Block(language, "\n".join(inside) + "\n", start, _remark(prose)))
            inside = None
        elif inside is not None:
            inside.append(line)
        else:
            prose.append(line)
    if inside is not None:
        raise ValueError(f"{path}: the block that begins in line {start} has no end.")
    return Page(path, tuple(blocks), "\n".join(prose))


def all_pages() -> list[Page]:
    """README and every page below docs/, in the order of their names."""
    return [page(path) for path in (ROOT / "README.md", *sorted(DOCS.rglob("*.md")))]


def _remark(prose: list[str]) -> str:
    comment = _COMMENT.match(prose[-1]) if prose else None
    return comment[1] if comment else ""


def _slug(heading: str) -> str:
    plain = re.sub(r"[`*$]", "", heading).lower()
    return re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
