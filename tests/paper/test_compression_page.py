"""The page on compression: its lines, tables and words hold the numbers of the run."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path

import pytest

from fedcox.paper.compression import METHODS, CompressionStudy, Trained, claims
from fedcox.paper.compression_page import compression_html, write_compression_page
from tests.reports.page_checks import check_drawings, check_loads_nothing, check_outline


def example() -> CompressionStudy:
    """A study of the true shape, from formulas instead of runs."""
    trained = tuple(
        Trained(
            method.name,
            columns,
            rounds,
            rounds * (30.0 + columns) * (8.0 - 0.5 * number),
            tuple(0.7 + 0.01 * study - 0.001 * number - 0.5 / rounds for study in range(3)),
            tuple(100.0 / rounds**2 + number for _ in range(3)),
        )
        for columns in (20, 200)
        for number, method in enumerate(METHODS)
        for rounds in (15, 50, 150)
    )
    return CompressionStudy(
        5000, 1000, 3, (20, 200), (15, 50, 150), trained, {"fedcox": "0.1.0"}
    )


@pytest.fixture(scope="module")
def page() -> str:
    return compression_html(example(), command="fedcox reproduce <here>")


def test_the_page_is_well_formed_and_self_contained(page: str) -> None:
    check_outline(page)
    check_loads_nothing(page)
    check_drawings(page)
    assert "fedcox reproduce &lt;here&gt;" in page
    assert "fedcox 0.1.0" in page


def test_every_method_is_in_both_tables(page: str) -> None:
    for method in METHODS:
        rows = re.findall(rf'<tr><th scope="row">{re.escape(method.name)}</th>.*?</tr>', page)
        assert len(rows) == 2
        for row, columns in zip(rows, (20, 200), strict=True):
            found = example().last(method.name, columns)
            assert f"<td>{found.mean:.3f} ± {found.spread:.3f}</td>" in row
            assert "<td>150</td>" in row
    first = re.search(r'<th scope="row">8-bit</th>.*?</tr>', page)
    assert first is not None
    # (30 + 20) numbers, 7 bytes each, 150 rounds; 7 in 8 of doubles; 0.002 below.
    for cell in ("350 bytes", "52.5 kB", "88 %", "−0.0020 ± 0.0000"):
        assert f"<td>{cell}</td>" in first[0]


def test_lines_stand_at_the_bytes_and_indices(page: str) -> None:
    study = example()
    drawing = re.findall(r'<svg viewBox="0 0 1000 1000".*?</svg>', page, re.S)[1]
    paths = dict(re.findall(r'<path class="c (c\d)" d="([^"]+)"', drawing))
    assert set(paths) == {f"c{style}" for style in range(7)}
    places = [(int(x), int(y)) for x, y in re.findall(r"[ML](\d+) (\d+)", paths["c0"])]
    found = study.along("doubles", 200)
    # From 1 kB to 1000 kB: a power of ten is a third of the width.
    kilobytes = [10 ** (3 * x / 1000) for x, _ in places]
    assert kilobytes == pytest.approx([one.bytes_up / 1000 for one in found], rel=0.01)
    heights = [1000 - y for _, y in places]
    assert heights == sorted(heights)


def test_statements_are_given_with_what_was_measured(page: str) -> None:
    text = unescape(page)
    for claim in claims(example()):
        verdict = "Yes" if claim.held else "No"
        assert f"{claim.statement} <strong>{verdict}</strong>: {claim.measured}." in text


def test_the_page_promises_no_privacy(page: str) -> None:
    assert "Fewer bytes are no privacy" in page
    assert "No attack was run on compressed gradients here" in page


def test_a_stored_study_gives_the_same_page(tmp_path: Path) -> None:
    back = CompressionStudy.from_json(json.loads(json.dumps(example().to_json())))
    write_compression_page(tmp_path / "page.html", back, command="again")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert text == compression_html(example(), command="again")
