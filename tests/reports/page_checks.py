"""What holds for every page: well formed, self-contained, drawn with numbers."""

from __future__ import annotations

import re
from html.parser import HTMLParser

VOID = {"meta", "link", "line", "path", "rect", "br", "circle"}
SVG_NUMBERS = re.compile(r'\b(?:x|y|x1|x2|y1|y2|d|width|height|cx|cy|style)="([^"]*)"')


class Outline(HTMLParser):
    """Headings, and whether every tag that opens also closes."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.headings: list[int] = []
        self.ids: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        if re.fullmatch(r"h[1-6]", tag):
            self.headings.append(int(tag[1]))
        for name, value in attrs:
            if name == "id" and value:
                self.ids.append(value)
            if name == "href" and value:
                self.links.append(value)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        # The long list of centers leaves its cells open, as HTML allows.
        while self.open and self.open[-1] in {"td", "th", "tr"} and self.open[-1] != tag:
            self.open.pop()
        assert self.open.pop() == tag


def check_page(page: str) -> None:
    """All of it, for a page with drawings."""
    check_outline(page)
    check_loads_nothing(page)
    check_drawings(page)


def check_outline(page: str) -> None:
    """Tags close, headings go down one step at a time, links lead somewhere."""
    outline = Outline()
    outline.feed(page)
    assert outline.open == []
    assert outline.headings[0] == 1
    assert outline.headings.count(1) == 1
    steps = zip(outline.headings, outline.headings[1:], strict=False)
    assert all(below - above <= 1 for above, below in steps)
    assert len(outline.ids) == len(set(outline.ids))
    inside = [link[1:] for link in outline.links if link.startswith("#")]
    assert set(inside) <= set(outline.ids)


def check_loads_nothing(page: str) -> None:
    assert "://" not in page
    assert "<script" not in page
    assert "@import" not in page
    assert "url(" not in page
    assert "default-src 'none'" in page


def check_drawings(page: str) -> None:
    for numbers in SVG_NUMBERS.findall(page):
        assert not re.search(r"nan|inf|none", numbers, re.IGNORECASE), numbers
