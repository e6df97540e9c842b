"""The pages of evaluations in a real browser: they fit a phone, know dark and light, print."""

from __future__ import annotations

import re
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
from fedcox.study.study_plan import plan
from tests import evaluation_examples as examples
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


def pages() -> dict[str, str]:
    return {
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


def test_everything_is_drawn(light: list[dict[str, Any]]) -> None:
    for page in light:
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
    assert [page["wide"] for page in light if page["width"] == DESK] == [[]] * len(pages())


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


def test_a_page_prints(tmp_path: Path) -> None:
    address = tmp_path / "evaluation.html"
    address.write_text(evaluation_html(examples.two_splits()), encoding="utf-8")
    browse(tmp_path, address, f"--print-to-pdf={tmp_path / 'evaluation.pdf'}")
    pdf = (tmp_path / "evaluation.pdf").read_bytes()
    assert pdf.startswith(b"%PDF")
    assert 2 <= len(re.findall(rb"/Type\s*/Page\b", pdf)) <= 5
