"""The page in a real browser: it fits a phone, knows dark and light, loads nothing, prints."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fedcox.analysis.fitted import FittedStudy
from fedcox.reports.study_report import report_html
from tests import fitted_examples as examples
from tests.reports.browser import CHROMIUM, brightness, browse, measure

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")

SHAPES: dict[str, Callable[[], FittedStudy]] = {
    "lung": examples.lung,
    "sixty covariates": examples.wide,
    "separated": examples.separated,
    "a thousand centers": examples.many_centers,
}


def pages() -> dict[str, str]:
    return {name: report_html(make()) for name, make in SHAPES.items()}


@pytest.fixture(scope="module")
def light(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    return measure(pages(), tmp_path_factory.mktemp("light"), "light")


@pytest.fixture(scope="module")
def dark(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    return measure(pages(), tmp_path_factory.mktemp("dark"), "dark")


def test_nothing_is_wider_than_the_screen(light: list[dict[str, Any]]) -> None:
    assert len(light) == 2 * len(SHAPES)
    for page in light:
        assert page["scroll"] <= page["width"], page
        assert page["height"] > 1000


def test_every_ratio_has_its_bar_and_the_curves_are_drawn(light: list[dict[str, Any]]) -> None:
    for page in light:
        expected = {"lung": 6, "sixty covariates": 58, "separated": 2, "a thousand centers": 1}
        assert page["bars"] == expected[page["name"]]
        assert page["curves"] >= 2


def test_the_page_makes_no_request(light: list[dict[str, Any]]) -> None:
    assert [page["loaded"] for page in light] == [0] * len(light)


def test_the_page_follows_the_readers_dark_or_light(
    light: list[dict[str, Any]], dark: list[dict[str, Any]]
) -> None:
    for page in light:
        assert brightness(page["ground"]) > 200
        assert brightness(page["ink"]) < 80
    for page in dark:
        assert brightness(page["ground"]) < 50
        assert brightness(page["ink"]) > 200


def test_the_page_prints(tmp_path: Path) -> None:
    address = tmp_path / "report.html"
    address.write_text(report_html(examples.lung()), encoding="utf-8")
    browse(tmp_path, address, f"--print-to-pdf={tmp_path / 'report.pdf'}")
    pdf = (tmp_path / "report.pdf").read_bytes()
    assert pdf.startswith(b"%PDF")
    pages = len(re.findall(rb"/Type\s*/Page\b", pdf))
    assert 3 <= pages <= 9
