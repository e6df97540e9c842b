"""The page of an evaluation: its drawings and tables hold the numbers of the rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean, stdev
from xml.etree import ElementTree

import numpy as np
import pytest

from fedcox.errors import OutputError
from fedcox.evaluation.comparison import Claim, compare
from fedcox.evaluation.result import Row
from fedcox.reports.evaluation_page import (
    EvaluationPage,
    evaluation_html,
    write_evaluation_page,
)
from fedcox.reports.evaluation_table import against
from tests import evaluation_examples as examples
from tests.reports.page_checks import check_page

SHAPES: dict[str, Callable[[], EvaluationPage]] = {
    "two splits": examples.two_splits,
    "four cancers": examples.four_cancers,
    "own study": examples.own_study,
}


@pytest.fixture(params=SHAPES, scope="module")
def page(request: pytest.FixtureRequest) -> str:
    return evaluation_html(SHAPES[request.param]())


def test_the_page_is_well_formed_and_self_contained(page: str) -> None:
    check_page(page)


def drawings(page: str, label: str) -> Iterator[ElementTree.Element]:
    """The drawings whose description begins with `label`, as XML: they must be well formed."""
    kinds = r"<svg class=\"(?:plain|marked|leaks)\" role=.*?  </svg>"
    for text in re.findall(kinds, page, re.S):
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
    assert "16 of 20" in page
    wanted = "Split by time: LOCAL, on 4 test sets: Too few events in a center to train on."
    assert wanted in page
    assert '<dt>c-indices</dt><dd class="value">196</dd>' in page


def test_notes_name_their_data_and_equal_ones_stand_once() -> None:
    page = examples.two_splits()
    uniform, by_time = page.data
    told = replace(
        page,
        notes=["Said of all.", "Said of all."],
        data=[
            replace(uniform, notes=["Of both.", "Of the first."]),
            replace(by_time, notes=["Of both."], rows=[*_noted(by_time.rows)]),
        ],
    )
    text = evaluation_html(told)
    section = text[text.index('id="notes"') : text.index('id="reading"')]
    assert re.findall("<li>(.*?)</li>", section) == [
        "Said of all.",
        "Uniform split, Split by time: Of both.",
        "Uniform split: Of the first.",
        "Split by time: POOL, ENS, on 20 test sets each; DT-FL, on 4 test sets: Shared.",
        "Split by time: LOCAL, on 4 test sets: Too few events in a center to train on.",
    ]
    alone = evaluation_html(replace(told, data=told.data[1:]))
    assert "<li>Of both.</li>" in alone
    assert "<li>LOCAL, on 4 test sets: Too few" in alone


def _noted(rows: Sequence[Row]) -> Iterator[Row]:
    for row in rows:
        shared = row.scheme in ("POOL", "ENS") or (row.scheme == "DT-FL" and row.fold == 1)
        yield replace(row, notes=("Shared.",)) if shared else row


def test_test_sets_with_few_events_are_counted_below_their_table() -> None:
    page = examples.own_study()
    (data,) = page.data

    def said(**events: int) -> str:
        rows = [
            replace(row, events=events.get(f"fold_{row.fold}", row.events)) for row in data.rows
        ]
        return evaluation_html(replace(page, data=[replace(data, rows=rows)]))

    assert "fewer than 5 events" not in said(fold_1=5)
    assert "1 test set has fewer than 5 events; its c-indices rest on few pairs" in said(
        fold_1=4
    )
    assert "2 test sets have fewer than 5 events; their" in said(fold_1=4, fold_2=1)


def test_small_counts_of_real_patients_are_not_told_by_a_sum() -> None:
    text = evaluation_html(examples.four_cancers())
    assert '<dd class="value">300–600</dd>' in text  # 303 to 603 with the three of Canada
    assert "centers of fewer than 5 are not counted" in text
    page = examples.own_study()
    (data,) = page.data
    few = {
        name: replace(part, event=np.arange(part.patients) < 1)
        for name, part in data.cohorts.items()
    }
    text = evaluation_html(replace(page, data=[replace(data, cohorts=few)]))
    assert "fewer than 5 with the event" in text
    assert text.count("patients, fewer than 5 events") == 3 * 3  # label, title, description
    assert "% events" not in text
    simulated = replace(data, cohorts=few, drawn_anew=True)
    assert "0.8 % events" in evaluation_html(replace(page, data=[simulated]))


def test_a_scheme_that_leaks_is_not_shown_as_any_federated_one() -> None:
    page = examples.two_splits()
    plain = evaluation_html(page)
    assert "leaks" not in plain[plain.index("<main>") :]
    leaking = examples.Named("N-FL")
    leaking.leaks = True
    text = evaluation_html(replace(page, schemes={**examples.NAMED, "N-FL": leaking}))
    assert {svg.get("class") for svg in drawings(text, "N-FL")} == {"leaks"}
    assert {svg.get("class") for svg in drawings(text, "DT-FL")} == {"marked"}
    assert text.count("<td>leaks</td>") == 2
    assert "single patients can be told from what it sends" in text
    assert "2 of them federated, 1 of which leaks" in text


def test_runs_over_left_out_centers_say_how_many_centers_there_are() -> None:
    page = examples.own_study()
    rows = examples.rows({"POOL": 0.7, "DT-FL": 0.69}, seeds=2, test_sets=("a", "b", "c"))
    data = replace(page.data[0], rows=rows)
    assert "The 6 test sets are 3 centers in 2 runs" in evaluation_html(
        replace(page, data=[data])
    )
    anew = replace(data, drawn_anew=True)
    assert "centers in 2 runs" not in evaluation_html(replace(page, data=[anew]))
    once = replace(data, rows=[row for row in rows if row.seed == 0])
    assert "test sets are 3" not in evaluation_html(replace(page, data=[once]))


def test_expected_values_are_called_by_their_source() -> None:
    page = replace(examples.two_splits(), source="stored <run>")
    text = evaluation_html(page)
    assert '<th scope="col" class="source">stored &lt;run&gt;</th>' in text
    assert "expected</th>" not in text
    assert "stored &lt;run&gt;: 0.715." in text


def test_claims_are_shown_with_what_they_were_checked_by() -> None:
    claims = [Claim("It holds.", "0.7", held=True), Claim("It fails.", "0.4", held=False)]
    page = replace(examples.two_splits(), claims=claims, claims_note="At <small> sizes.")
    text = evaluation_html(page)
    assert text.count("The paper's conclusions, as checked here") == 2
    assert "At &lt;small&gt; sizes." in text
    assert text.count('<tr class="failed">') == 1
    assert 'id="claims"' not in evaluation_html(examples.two_splits())


def test_federated_schemes_are_marked() -> None:
    page = evaluation_html(examples.two_splits())
    marked = {svg.get("class") for name in ("N-FL", "DT-FL") for svg in drawings(page, name)}
    plain = {svg.get("class") for name in ("POOL", "ENS") for svg in drawings(page, name)}
    assert (marked, plain) == ({"marked"}, {"plain"})


def test_real_patients_are_shown_in_groups_and_simulated_ones_freely() -> None:
    real = evaluation_html(examples.four_cancers())
    assert "No bar or share describes fewer than 5 patients" in real
    assert "fewer than 5 patients: not shown" in real
    simulated = evaluation_html(examples.two_splits())
    assert "Simulated patients of the first run" in simulated
    assert "No bar" not in simulated


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
