"""The page on appendix A: what it says in words is what its numbers say."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from fedcox.paper.appendix_a import AppendixA, appendix_html, sentences, write_appendix_page
from tests import evaluation_examples as examples
from tests.reports.page_checks import check_drawings, check_loads_nothing, check_outline


@pytest.fixture(scope="module")
def page() -> str:
    return appendix_html(examples.appendix(), command="fedcox reproduce appendix-a")


def test_the_page_is_well_formed_and_self_contained(page: str) -> None:
    check_outline(page)
    check_loads_nothing(page)
    check_drawings(page)


def test_every_number_is_in_the_table(page: str) -> None:
    cells = re.findall(r'<td>([\d.]+)<span class="small">([\d.]+)</span></td>', page)
    found = examples.appendix().approaches
    assert cells == [(f"{one.ratio:.3f}", f"{one.difference:.2f}") for one in found]


def test_links_differ_in_colour_and_readings_in_dashes(page: str) -> None:
    first = re.findall(r'<svg viewBox="0 0 1000 1000".*?</svg>', page, re.S)[0]
    classes = re.findall(r'<path class="c (c\d dash\d)"', first)
    assert classes == [f"c{link} dash{reading}" for link in (0, 1) for reading in (0, 1, 2)]


def test_words_hold_the_numbers_of_the_run() -> None:
    result = examples.appendix()
    independent, dependent, every_event = sentences(result)
    # From the formulas of the example: 1.001 + bias / intervals.
    assert "at 20 its coefficients are 1.00 of Cox's" in independent
    assert "1.03 of Cox's" in independent
    assert "gives 0.90 of Cox's coefficients" in dependent
    assert "leaving the patient out 1.20, one half 0.95" in dependent
    assert "at 1,000 intervals they give 1.00, 1.00 and 1.00" in dependent
    assert "within 0.01 standard errors" in every_event


def test_a_stored_result_gives_the_same_page(tmp_path: Path) -> None:
    result = examples.appendix()
    back = AppendixA.from_json(json.loads(json.dumps(result.to_json())))
    write_appendix_page(tmp_path / "page.html", back, command="again")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert text == appendix_html(result, command="again")
