"""The page on differential privacy: its lines, tables and words hold the numbers of the run."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path

import numpy as np
import pytest

from fedcox.paper.privacy import SECURE, PrivacyStudy, claims
from fedcox.paper.privacy_page import privacy_html, write_privacy_page
from tests.paper.test_privacy import example
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
    for columns, table in zip((6, 20), tables, strict=True):
        assert table.count("<tr>") == 1 + 2 * 4
        for epsilon in (1.0, 3.0, 10.0, 30.0):
            found = example().found(SECURE, columns, epsilon)
            index = float(np.mean(found.c_indices)), float(np.std(found.c_indices, ddof=1))
            assert f"<td>{index[0]:.3f} ± {index[1]:.3f}</td>" in table
            assert f"<td>{found.errors[0]:.3f}</td><td>{found.arrived} of 3</td>" in table
        without = "<td>0.100</td><td>3 of 3</td><td>95.0 %</td><td>–</td>"
        assert without in table
    nowhere = "<td>0 of 3</td><td>–</td><td>–</td>"
    assert nowhere in tables[0], "a fit that did not arrive has no intervals"


def test_errors_fall_to_that_without_noise(page: str) -> None:
    drawing = re.findall(r'<svg viewBox="0 0 1000 1000".*?</svg>', page, re.S)[1]
    heights = {
        style: [int(y) for y in re.findall(r"[ML]\d+ (\d+)", path)]
        for style, path in re.findall(r'<path class="c (c\d)" d="([^"]+)"', drawing)
    }
    assert heights["c0"][0] == heights["c0"][1], "no noise is level"
    assert sorted(heights["c1"]) == heights["c1"], "down the page, which counts from the top"
    assert all(each <= once for each, once in zip(heights["c2"], heights["c1"], strict=True)), (
        "noise at each center lies above"
    )


def test_statements_and_guesses_are_told(page: str) -> None:
    text = unescape(page)
    for claim in claims(example()):
        verdict = "Yes" if claim.held else "No"
        assert f"{claim.statement} <strong>{verdict}</strong>: {claim.measured}." in text
    assert "73.1 % of cases at epsilon 1," in text
    assert "99.995 % at epsilon 10," in re.sub(r" of cases", "", text)


def test_a_stored_study_gives_the_same_page(tmp_path: Path) -> None:
    back = PrivacyStudy.from_json(json.loads(json.dumps(example().to_json())))
    write_privacy_page(tmp_path / "page.html", back, command="again")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert text == privacy_html(example(), command="again")
