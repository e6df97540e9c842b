"""The page: complete, self-contained, and right for studies of every shape."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from fedcox.analysis.fitted import FittedStudy, Notice
from fedcox.errors import OutputError
from fedcox.reports.study_report import report_html, write_report
from tests import fitted_examples as examples
from tests.reports.page_checks import check_drawings, check_loads_nothing, check_outline

SHAPES: dict[str, Callable[[], FittedStudy]] = {
    "lung": examples.lung,
    "logit": lambda: examples.lung(link="logit"),
    "sixty covariates": examples.wide,
    "nothing estimable": examples.nothing_estimable,
    "separated": examples.separated,
    "every event time": examples.every_event_time,
    "a thousand centers": examples.many_centers,
    "no ledger": lambda: replace(examples.lung(), ledger=(), convergence=()),
}


@pytest.fixture(params=SHAPES, scope="module")
def page(request: pytest.FixtureRequest) -> str:
    return report_html(
        replace(SHAPES[request.param](), command="fedcox fit study.toml --out RUN")
    )


def test_the_page_is_well_formed_with_headings_in_order(page: str) -> None:
    check_outline(page)


def test_the_page_loads_nothing(page: str) -> None:
    check_loads_nothing(page)


def test_no_drawing_holds_nan_or_infinity(page: str) -> None:
    check_drawings(page)


def test_the_page_stays_small(page: str) -> None:
    assert len(page.encode()) < 200_000


def test_names_from_files_are_escaped() -> None:
    page = report_html(examples.wide())
    assert "gene &lt;0&gt; &amp; co" in page
    assert "gene <0>" not in page
    assert "<h1>Example &lt;study&gt; &amp; more</h1>" in page


def test_centers_and_warnings_and_commands_are_escaped() -> None:
    fitted = examples.lung()
    bad = "<img src=x onerror=alert(1)>"
    fitted = replace(
        fitted,
        centers=(replace(fitted.centers[0], name=bad), *fitted.centers[1:]),
        notices=(Notice("SeparationWarning", bad),),
        versions={"fedcox": bad},
    )
    assert "<img" not in report_html(replace(fitted, command=bad))


def test_each_link_is_explained_under_its_honest_name() -> None:
    hazard, odds = report_html(examples.lung()), report_html(examples.lung(link="logit"))
    assert '<h2 id="ratios-title">Hazard ratios</h2>' in hazard
    assert "hazard odds ratio" not in hazard
    assert '<h2 id="ratios-title">Hazard odds ratios</h2>' in odds
    assert "<strong>not a hazard ratio</strong>" in odds


def test_warnings_come_first_and_in_plain_words() -> None:
    page = report_html(examples.separated())
    assert page.index("Read this before using the numbers") < page.index('id="ratios"')
    assert "A coefficient without a limit" in page
    assert 'id="warnings"' not in report_html(examples.lung())


def test_the_page_promises_no_privacy() -> None:
    page = report_html(examples.lung())
    assert "not a guarantee of privacy" in page
    assert "in one process" in page
    assert "not a sum: the time of one patient" in page
    assert "is not in the ledger" in page


def test_the_study_file_and_versions_are_there_to_reproduce() -> None:
    page = report_html(replace(examples.lung(), command="fedcox fit study.toml --out RUN"))
    assert "# The lung study over five hospitals." in page
    assert "fedcox fit study.toml --out RUN" in page
    assert "fedcox 0.1.0" in page


def test_what_the_data_cannot_say_is_said() -> None:
    page = report_html(examples.wide())
    assert "gene &lt;3&gt; &amp; co repeats what other columns already say" in page
    assert "gene &lt;4&gt; &amp; co has the same value for every patient" in page
    assert "Nothing is known beyond 360 days" in page
    few = replace(
        examples.lung(),
        centers=tuple(replace(center, events=2) for center in examples.lung().centers),
    )
    assert "10 events are few for 6 coefficients" in report_html(few)


def test_a_fit_read_from_its_file_gives_the_same_page(tmp_path: Path) -> None:
    for make in (examples.lung, examples.separated, examples.nothing_estimable):
        fitted = make()
        fitted.save(tmp_path / "fit.json")
        back = replace(FittedStudy.read(tmp_path / "fit.json"), ledger=fitted.ledger)
        assert report_html(back) == report_html(fitted)


def test_the_page_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    write_report(replace(examples.lung(), command="fedcox fit"), path)
    assert path.read_text(encoding="utf-8") == report_html(
        replace(examples.lung(), command="fedcox fit")
    )
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]
    with pytest.raises(OutputError, match="Cannot write"):
        write_report(examples.lung(), tmp_path / "nowhere" / "report.html")
