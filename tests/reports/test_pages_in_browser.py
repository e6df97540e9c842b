"""Every page in a real browser: it fits a phone, knows dark and light, makes no request."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fedcox.evaluation.comparison import Claim
from fedcox.paper.appendix_a import appendix_html
from fedcox.paper.communication_page import communication_html
from fedcox.paper.compression_page import compression_html
from fedcox.paper.privacy_page import privacy_html
from fedcox.reports.audit_page import audit_html
from fedcox.reports.evaluation_page import evaluation_html
from fedcox.reports.plan_page import plan_html
from fedcox.reports.study_report import report_html
from fedcox.study.fitted import FittedStudy
from fedcox.study.study_plan import plan
from tests import evaluation_examples as examples
from tests import fitted_examples
from tests.paper.test_compression import example as compression_example
from tests.paper.test_privacy import example as privacy_example
from tests.reports.browser import CHROMIUM, DESK, PHONE, brightness, browse, measure
from tests.reports.test_audit_page import example as audit_example
from tests.study.test_study_plan import study as planned_study

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")


CLAIM = Claim(
    "Where centers differ in how long patients were followed, N-FL falls behind pooling.",
    "N-FL −0.160 (−0.170 to −0.151), DT-FL −0.006 (−0.009 to −0.002)",
    held=True,
)
FITS: dict[str, Callable[[], FittedStudy]] = {
    "lung": fitted_examples.lung,
    "sixty covariates": fitted_examples.wide,
    "separated": fitted_examples.separated,
    "a thousand centers": fitted_examples.many_centers,
    "secure sums": fitted_examples.secure_sums,
    "differential privacy": fitted_examples.differentially_private,
}
RATIOS = {"lung": 6, "sixty covariates": 58, "separated": 2, "a thousand centers": 1}
POINTS = {**RATIOS, "secure sums": 6, "differential privacy": 6}
LEDGER = {
    "Questions asked of the centers",
    "Numbers and bytes per center",
    "Numbers per center and question",
}


def pages() -> dict[str, str]:
    return {
        **{name: report_html(make()) for name, make in FITS.items()},
        "two splits": evaluation_html(replace(examples.two_splits(), claims=[CLAIM])),
        "four cancers": evaluation_html(examples.four_cancers()),
        "own study": evaluation_html(examples.own_study()),
        "communication": communication_html(examples.communication(), command="fedcox"),
        "appendix": appendix_html(examples.appendix(), command="fedcox"),
        "compression": compression_html(compression_example(), command="fedcox"),
        "privacy": privacy_html(privacy_example(), command="fedcox"),
        "audit": audit_html(audit_example()),
        "plan": plan_html(plan(planned_study(), patients=1500, events=700, shares=[0.5, 0.1])),
    }


@pytest.fixture(scope="module")
def light(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    return measure(pages(), tmp_path_factory.mktemp("light"), "light")


@pytest.fixture(scope="module")
def dark(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    return measure(pages(), tmp_path_factory.mktemp("dark"), "dark")


def test_nothing_is_wider_than_the_screen(light: list[dict[str, Any]]) -> None:
    assert len(light) == 2 * len(pages())
    for page in light:
        assert page["scroll"] <= page["width"], page
        assert page["height"] > 1000


def test_no_two_labels_of_an_axis_overlap(light: list[dict[str, Any]]) -> None:
    for page in light:
        assert page["overlaps"] == [], page


def test_every_ratio_has_its_point_and_the_curves_are_drawn(
    light: list[dict[str, Any]],
) -> None:
    for page in light:
        name = page["name"]
        assert page["points"] == POINTS.get(name, 0)
        assert page["bars"] == (0 if name == "differential privacy" else POINTS.get(name, 0))
        assert name not in FITS or page["curves"] >= 2


def test_everything_of_an_evaluation_is_drawn(light: list[dict[str, Any]]) -> None:
    for page in light:
        if page["name"] in FITS:
            continue
        dots = {"two splits": 200 - 4, "four cancers": 4 * 3 * 9, "own study": 10}
        curves = {"communication": 2 * (4 + 5), "appendix": 4 * 6, "compression": 2 * 7}
        curves["privacy"] = 4 * 3
        curves["plan"] = 4 + 4
        assert page["dots"] == dots.get(page["name"], 0)
        assert page["curves"] == curves.get(page["name"], 0)


def test_a_statement_has_room_on_a_phone(light: list[dict[str, Any]]) -> None:
    widths = {page["width"]: page["statements"] for page in light if page["statements"]}
    assert min(widths[PHONE]) > 0.8 * PHONE
    assert len(widths[PHONE]) == len(widths[DESK]) == 1


def test_tables_fit_a_desk(light: list[dict[str, Any]]) -> None:
    for page in light:
        if page["width"] == DESK:
            may_be_wide = {*page["wide"]} - LEDGER if page["name"] in FITS else set()
            assert {*page["wide"]} == may_be_wide, page


def test_lines_of_messages_are_told_apart_without_colour(light: list[dict[str, Any]]) -> None:
    for page in light:
        if page["name"] == "communication":
            assert [len(set(dashes)) for dashes in page["dashes"]] == [4, 5]
        if page["name"] == "compression":
            assert [len(set(dashes)) for dashes in page["dashes"]] == [7]


def test_the_pages_make_no_request(light: list[dict[str, Any]]) -> None:
    assert [page["loaded"] for page in light] == [0] * len(light)


def test_the_pages_follow_the_readers_dark_or_light(
    light: list[dict[str, Any]], dark: list[dict[str, Any]]
) -> None:
    for page in light:
        assert brightness(page["ground"]) > 200
        assert brightness(page["ink"]) < 80
    for page in dark:
        assert brightness(page["ground"]) < 50
        assert brightness(page["ink"]) > 200


@pytest.mark.parametrize(
    ("name", "fewest", "most"),
    [
        ("two splits", 2, 5),
        ("lung", 3, 9),
        ("secure sums", 3, 9),
        ("differential privacy", 3, 9),
    ],
)
def test_a_page_prints(name: str, fewest: int, most: int, tmp_path: Path) -> None:
    address = tmp_path / "page.html"
    address.write_text(pages()[name], encoding="utf-8")
    browse(tmp_path, address, f"--print-to-pdf={tmp_path / 'page.pdf'}")
    pdf = (tmp_path / "page.pdf").read_bytes()
    assert pdf.startswith(b"%PDF")
    assert fewest <= len(re.findall(rb"/Type\s*/Page\b", pdf)) <= most
