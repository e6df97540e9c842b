"""The page on differential privacy: its lines, tables and words hold the numbers of the run."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path

import pytest

from fedcox.evaluation.paper_privacy import NO_NOISE, ONCE, PrivacyStudy, claims
from fedcox.reports.privacy_page import privacy_html, write_privacy_page
from tests.evaluation.test_paper_privacy import example
from tests.reports.page_checks import check_drawings, check_loads_nothing, check_outline


@pytest.fixture(scope="module")
def page() -> str:
    return privacy_html(example(), command="fedcox reproduce <here>")


def test_the_page_is_well_formed_and_self_contained(page: str) -> None:
    check_outline(page)
    check_loads_nothing(page)
    check_drawings(page)
    assert "fedcox reproduce &lt;here&gt;" in page
    assert "fedcox 0.1.0" in page


def test_every_fit_is_in_its_table(page: str) -> None:
    tables = re.findall(r"<tbody>.*?</tbody>", page, re.S)[:2]
    for columns, table in zip((20, 200), tables, strict=True):
        assert table.count("<tr>") == 2 + 2 * 4
        for epsilon in (0.5, 1.0, 3.0, 10.0):
            found = example().found(ONCE, columns, epsilon)
            assert f"<td>{found.mean:.3f} ± {found.spread:.3f}</td>" in table
        without = example().found(NO_NOISE, columns)
        assert f"<td>{without.mean:.3f} ± {without.spread:.3f}</td><td>–</td>" in table


def test_lines_rise_to_the_fit_without_noise(page: str) -> None:
    drawing = re.findall(r'<svg viewBox="0 0 1000 1000".*?</svg>', page, re.S)[1]
    heights = {
        style: [int(y) for y in re.findall(r"[ML]\d+ (\d+)", path)]
        for style, path in re.findall(r'<path class="c (c\d)" d="([^"]+)"', drawing)
    }
    assert heights["c0"][0] == heights["c0"][1], "no noise is level"
    assert sorted(heights["c1"], reverse=True) == heights["c1"]
    assert all(each >= once for each, once in zip(heights["c2"], heights["c1"], strict=True)), (
        "noise at each center lies below"
    )


def test_statements_and_audits_are_told(page: str) -> None:
    text = unescape(page)
    for claim in claims(example()):
        assert f"{claim.statement} <strong>Yes</strong>: {claim.measured}." in text
    assert "the claim is wrong" in text
    assert "nothing against the claim" in text
    assert "73.1 % of cases at epsilon 1," in text
    assert "99.995 % of cases at epsilon 10." in text
    assert "An audit can refute a claim, not prove it" in text


def test_a_stored_study_gives_the_same_page(tmp_path: Path) -> None:
    back = PrivacyStudy.from_json(json.loads(json.dumps(example().to_json())))
    write_privacy_page(tmp_path / "page.html", back, command="again")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert text == privacy_html(example(), command="again")
