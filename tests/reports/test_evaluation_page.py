"""The page of an evaluation: its drawings and tables hold the numbers of the rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from statistics import fmean, stdev
from xml.etree import ElementTree

import numpy as np
import pytest

from fedcox.errors import OutputError
from fedcox.evaluation.comparison import compare
from fedcox.reports.evaluation_lines import against
from fedcox.reports.evaluation_page import (
    EvaluationPage,
    evaluation_html,
    write_evaluation_page,
)
from tests import evaluation_examples as examples
from tests.reports.page_checks import check_drawings, check_loads_nothing, check_outline

SHAPES: dict[str, Callable[[], EvaluationPage]] = {
    "two splits": examples.two_splits,
    "four cancers": examples.four_cancers,
    "own study": examples.own_study,
}


@pytest.fixture(params=SHAPES, scope="module")
def page(request: pytest.FixtureRequest) -> str:
    return evaluation_html(SHAPES[request.param]())


def test_the_page_is_well_formed_with_headings_in_order(page: str) -> None:
    check_outline(page)


def test_the_page_loads_nothing(page: str) -> None:
    check_loads_nothing(page)


def test_no_drawing_holds_nan_or_infinity(page: str) -> None:
    check_drawings(page)


def drawings(page: str, label: str) -> Iterator[ElementTree.Element]:
    """The drawings whose description begins with `label`, as XML: they must be well formed."""
    for text in re.findall(r"<svg class=\"(?:plain|marked)\" role=.*?  </svg>", page, re.S):
        svg = ElementTree.fromstring(text)
        if svg.get("aria-label", "").startswith(f"{label}:"):
            yield svg


def per_cent(text: str | None) -> float:
    assert text is not None
    return float(text.removesuffix("%"))


def test_every_row_of_the_experiment_is_one_dot_at_its_own_value() -> None:
    given = examples.two_splits()
    page = evaluation_html(given)
    boxes = page[: page.index('id="table"')]
    labels = re.findall(r'<span style="left:([\d.]+)%">(0\.[\d]+)</span>', boxes)
    places, values = zip(*((float(a), float(b)) for a, b in labels), strict=True)
    slope, offset = np.polyfit(places, values, 1)
    for scheme in examples.INDICES:
        for data, svg in zip(given.data, drawings(page, scheme), strict=True):
            known = [
                row.c_index
                for row in data.rows
                if row.scheme == scheme and row.c_index is not None
            ]
            dots = [per_cent(dot.get("cx")) for dot in svg.iter("circle")]
            drawn = [offset + slope * place for place in dots]
            assert drawn == pytest.approx(known, abs=1e-4)


def test_expected_values_stand_where_they_were_given_and_nowhere_else() -> None:
    page = evaluation_html(examples.two_splits())
    marks = [
        len(list(svg.iter("svg"))) - 1
        for scheme in examples.INDICES
        for svg in drawings(page, scheme)
    ]
    assert marks == [1, 0] * len(examples.INDICES)
    assert "the paper&#39;s figure 2" in page
    assert "expected:" not in evaluation_html(examples.four_cancers())


def test_the_table_holds_mean_spread_and_paired_differences() -> None:
    page = evaluation_html(examples.own_study())
    rows = examples.own_study().data[0].rows
    pool = [row.c_index for row in rows if row.scheme == "POOL" and row.c_index is not None]
    ours = [row.c_index for row in rows if row.scheme == "DT-FL" and row.c_index is not None]
    assert f"{fmean(pool):.3f} ± {stdev(pool):.3f}" in page
    gain = fmean(after - before for after, before in zip(ours, pool, strict=True))
    assert f"{gain:+.3f}".replace("-", "−") in page
    assert "minus POOL" in page


def test_any_scheme_may_be_the_reference() -> None:
    (comparison,) = compare(examples.rows())
    forth = against(comparison, "DT-FL", "POOL")
    back = against(comparison, "POOL", "DT-FL")
    assert forth is not None
    assert back is not None
    assert forth.mean is not None
    assert forth.low is not None
    assert forth.high is not None
    assert (back.mean, back.low, back.high) == (-forth.mean, -forth.high, -forth.low)
    assert (back.scheme, back.reference) == ("POOL", "DT-FL")
    assert against(comparison, "POOL", "POOL") is None
    assert "minus DT-FL" in evaluation_html(examples.four_cancers())


def test_a_test_set_without_an_index_is_said() -> None:
    page = evaluation_html(examples.two_splits())
    assert "16 (+4 without)" in page
    assert "LOCAL, on 4 test sets: Too few events in a center to train on." in page


def test_federated_schemes_are_marked() -> None:
    page = evaluation_html(examples.two_splits())
    marked = {svg.get("class") for name in ("N-FL", "DT-FL") for svg in drawings(page, name)}
    plain = {svg.get("class") for name in ("POOL", "ENS") for svg in drawings(page, name)}
    assert (marked, plain) == ({"marked"}, {"plain"})


def test_real_patients_are_shown_in_groups_and_simulated_ones_freely() -> None:
    real = evaluation_html(examples.four_cancers())
    assert "No bar describes fewer than 5 patients" in real
    assert "fewer than 5 patients: not shown" in real
    simulated = evaluation_html(examples.two_splits())
    assert "Simulated patients of the first run" in simulated
    assert "No bar describes" not in simulated


def test_each_evaluation_says_what_its_interval_rests_on() -> None:
    page = evaluation_html(examples.four_cancers())
    assert page.count("corrected resampled t") == 1
    assert page.count("paired t over the centers left out") == 1
    assert "BRCA: one center left out" in page


def test_names_and_commands_are_escaped() -> None:
    page = evaluation_html(examples.own_study())
    assert "<h1>Lung &amp; &lt;more&gt;</h1>" in page
    assert "<b>center" not in page
    assert "--data &lt;all&gt;.csv" in page


def test_a_scheme_that_is_no_longer_known_is_still_shown() -> None:
    page = evaluation_html(replace(examples.own_study(), schemes={}))
    assert len(list(drawings(page, "DT-FL"))) == 1
    assert "What DT-FL stands for" not in page


def test_the_page_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    write_evaluation_page(examples.own_study(), tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert text == evaluation_html(examples.own_study())
    with pytest.raises(OutputError, match="Cannot write"):
        write_evaluation_page(examples.own_study(), tmp_path / "nowhere" / "page.html")
