"""The page on communication: its lines and tables hold the counts."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path

import pytest

from fedcox.paper.communication import CommunicationStudy
from fedcox.paper.communication_page import communication_html, write_communication_page
from tests import evaluation_examples as examples
from tests.reports.page_checks import check_drawings, check_loads_nothing, check_outline


@pytest.fixture(scope="module")
def page() -> str:
    return communication_html(examples.communication(), command="fedcox reproduce <here>")


def test_the_page_is_well_formed_and_self_contained(page: str) -> None:
    check_outline(page)
    check_loads_nothing(page)
    check_drawings(page)
    assert "fedcox reproduce &lt;here&gt;" in page
    assert "fedcox 0.1.0" in page


def heights(page: str, plot: int) -> dict[str, list[int]]:
    """The vertical places of each line of a plot, by its class."""
    drawing = re.findall(r'<svg viewBox="0 0 1000 1000".*?</svg>', page, re.S)[plot]
    return {
        style: [int(y) for y in re.findall(r"[ML]\d+ (\d+)", path)]
        for style, path in re.findall(r'<path class="c (c\d)" d="([^"]+)"', drawing)
    }


def powers(page: str, plot: int) -> tuple[float, float]:
    """The lowest and highest power of ten on the vertical axis."""
    labels = re.findall(r'<div class="ylabels".*?</div>', page, re.S)[plot]
    raised = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")
    marks = {
        float(top): int(power.translate(raised))
        for top, power in re.findall(r'top:([\d.]+)%">10([^<]+)<', labels)
    }
    return marks[100.0], marks[0.0]


def test_lines_stand_at_the_counted_numbers(page: str) -> None:
    study = examples.communication()
    low, high = powers(page, 0)
    drawn = heights(page, 0)
    styles = {"DT-FL, L-BFGS": "c0", "DT-FL, Newton": "c1", "WebDISCO, Newton": "c3"}
    for method, style in styles.items():
        sent = [study.cost(method, t, 100).per_round.numbers_up for t in study.times]
        found = [10 ** (high - (high - low) * y / 1000) for y in drawn[style]]
        assert found == pytest.approx(sent, rel=0.01)  # a thousandth of the height is 0.8 %


def test_a_method_looks_the_same_in_both_figures(page: str) -> None:
    assert set(heights(page, 0)) == {"c0", "c1", "c2", "c3"}
    assert set(heights(page, 2)) == {"c0", "c1", "c2", "c3", "c4"}


def test_the_table_holds_numbers_and_orders(page: str) -> None:
    study = examples.communication()
    for cost in study.costs:
        assert f"<td>{cost.per_round.numbers_up:,}</td>" in page
    text = unescape(page)
    for order in ("O(T + P)", "O(TP)", "O(TP²)", "O(TP + P²)"):
        assert f"<td>{order}</td>" in text
    assert "<td>1.00</td><td>1.00</td>" in page  # WebDISCO over T, at any P


def test_what_was_not_run_is_not_claimed(page: str) -> None:
    rows = re.findall(r"<tr>.*?DT-FL, Adam.*?</tr>", page)
    totals = [row for row in rows if "not run" in row]
    assert len(totals) == 1 + 9
    assert all("5,002" in row for row in totals)
    assert "how near those rounds come to the optimum was not run here" in page


def test_the_page_promises_no_privacy(page: str) -> None:
    assert "Fewer numbers are no guarantee of privacy" in page


def test_a_stored_study_gives_the_same_page(tmp_path: Path) -> None:
    study = examples.communication()
    back = CommunicationStudy.from_json(json.loads(json.dumps(study.to_json())))
    write_communication_page(tmp_path / "page.html", back, command="again")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert text == communication_html(study, command="again")
