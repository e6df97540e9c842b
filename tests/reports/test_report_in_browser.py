"""The page in a real browser: it fits a phone, knows dark and light, loads nothing, prints."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fedcox.reports.study_report import report_html
from fedcox.study.fitted import FittedStudy
from tests import fitted_examples as examples
from tests.reports.browser import CHROMIUM, DESK, brightness, browse, measure

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")

SHAPES: dict[str, Callable[[], FittedStudy]] = {
    "lung": examples.lung,
    "sixty covariates": examples.wide,
    "separated": examples.separated,
    "a thousand centers": examples.many_centers,
    "secure sums": examples.secure_sums,
    "differential privacy": examples.differentially_private,
}
RATIOS = {"lung": 6, "sixty covariates": 58, "separated": 2, "a thousand centers": 1}
LEDGER = {
    "Questions asked of the centers",
    "Numbers and bytes per center",
    "Numbers per center and question",
}
POINTS = {**RATIOS, "secure sums": 6, "differential privacy": 6}


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


def test_every_ratio_has_its_point_and_the_curves_are_drawn(
    light: list[dict[str, Any]],
) -> None:
    for page in light:
        name = page["name"]
        assert page["points"] == POINTS[name]
        assert page["bars"] == (0 if name == "differential privacy" else POINTS[name])
        assert page["curves"] >= 2


def test_the_ledgers_tables_fit_a_desk(light: list[dict[str, Any]]) -> None:
    for page in light:
        if page["width"] == DESK:
            assert not LEDGER & {*page["wide"]}, page


def test_no_two_labels_of_an_axis_overlap(light: list[dict[str, Any]]) -> None:
    for page in light:
        assert page["overlaps"] == [], page


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


@pytest.mark.parametrize("name", ["lung", "secure sums", "differential privacy"])
def test_the_page_prints(name: str, tmp_path: Path) -> None:
    address = tmp_path / "report.html"
    address.write_text(report_html(SHAPES[name]()), encoding="utf-8")
    browse(tmp_path, address, f"--print-to-pdf={tmp_path / 'report.pdf'}")
    pdf = (tmp_path / "report.pdf").read_bytes()
    assert pdf.startswith(b"%PDF")
    pages = len(re.findall(rb"/Type\s*/Page\b", pdf))
    assert 3 <= pages <= 9
