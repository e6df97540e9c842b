"""The report's page, and how the solver came to rest on it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from markupsafe import escape

from fedcox.errors import OutputError
from fedcox.federation.ledger import LedgerRow
from fedcox.reports.guarantee_words import promises
from fedcox.reports.report_words import NO_COUNTS, SUMS_ONLY
from fedcox.reports.study_report import (
    convergence_figure,
    report_html,
    write_report,
)
from fedcox.study.fit_rows import Guarantee, Notice, RoundRow
from fedcox.study.fitted import FittedStudy
from fedcox.study.released import released
from fedcox.study.study import Study
from tests import fitted_examples as examples
from tests.reports.page_checks import check_page


def numbers(path: str) -> list[float]:
    return [float(number) for number in re.findall(r"-?\d+(?:\.\d+)?", path)]


def test_the_decrement_falls_on_a_logarithmic_axis() -> None:
    figure = convergence_figure(examples.lung())
    assert figure is not None
    assert figure.quantity == "decrement"
    places = numbers(figure.plot.lines[0].path)
    assert places[1::2] == sorted(places[1::2])
    assert min(places) >= 0
    assert max(places) <= 1000


def test_a_solver_without_decrement_shows_its_loss() -> None:
    rows = tuple(RoundRow(i + 1, 100.0 + 50.0 / (i + 1), None) for i in range(5000))
    figure = convergence_figure(replace(examples.lung(), convergence=rows))
    assert figure is not None
    assert figure.quantity == "loss"
    assert figure.plot.lines[0].dots == ""
    assert len(numbers(figure.plot.lines[0].path)) == 2 * 200


def test_zero_and_missing_numbers_are_left_out_of_the_line() -> None:
    rows = (RoundRow(1, 5.0, 3.0), RoundRow(2, 4.0, 0.0), RoundRow(3, math.nan, math.nan))
    figure = convergence_figure(replace(examples.lung(), convergence=rows))
    assert figure is not None
    assert len(numbers(figure.plot.lines[0].path)) == 2


def test_one_round_of_constant_loss_has_an_axis() -> None:
    figure = convergence_figure(
        replace(examples.lung(), convergence=(RoundRow(1, 7.0, None), RoundRow(2, 7.0, None)))
    )
    assert figure is not None
    assert len(figure.plot.y_ticks) >= 2


def test_no_rounds_no_figure() -> None:
    assert convergence_figure(examples.nothing_estimable()) is None


def test_under_noise_there_is_no_figure_whatever_the_rounds_say() -> None:
    fitted = examples.differentially_private()
    assert convergence_figure(fitted) is None
    assert convergence_figure(replace(fitted, convergence=examples.lung().convergence)) is None


SHAPES: dict[str, Callable[[], FittedStudy]] = {
    "lung": examples.lung,
    "logit": lambda: examples.lung(link="logit"),
    "sixty covariates": examples.wide,
    "nothing estimable": examples.nothing_estimable,
    "separated": examples.separated,
    "every event time": examples.every_event_time,
    "a thousand centers": examples.many_centers,
    "secure sums": examples.secure_sums,
    "secure sums of a thousand centers": lambda: examples.under_secure_sums(
        examples.many_centers()
    ),
    "secure sums without ledger": lambda: replace(examples.secure_sums(), ledger=()),
    "differential privacy": examples.differentially_private,
    "differential privacy by each center": lambda: examples.under_differential_privacy(
        examples.wide(), epsilon=8.0, masked=False
    ),
    "differential privacy without ledger": lambda: replace(
        examples.under_differential_privacy(examples.many_centers()), ledger=()
    ),
    "no ledger": lambda: replace(examples.lung(), ledger=(), convergence=()),
}


def section(page: str, name: str) -> str:
    return page.split(f'<section id="{name}"')[1].split("</section>")[0]


@pytest.fixture(params=SHAPES, scope="module")
def page(request: pytest.FixtureRequest) -> str:
    return report_html(
        replace(SHAPES[request.param](), command="fedcox fit study.toml --out RUN")
    )


def test_the_page_of_every_fit_is_well_formed_self_contained_and_small(page: str) -> None:
    check_page(page)
    body = page.split("</style>")[1]  # nothing unknown is printed as a number
    assert re.findall(r"\b(?:None|nan|NaN|inf|True|False)\b", body) == []
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


def test_under_secure_sums_the_page_says_what_was_seen() -> None:
    page = report_html(examples.secure_sums())
    assert escape(SUMS_ONLY) in page
    assert "fitted on masked sums over 5 centers" in page
    assert "not a guarantee of privacy" in page
    assert "left out" not in page
    assert "neither masked" not in page
    assert "counts per center were not kept" not in page
    assert "it compares patients of different centers" in page
    assert "<dt>Concordance</dt>" not in page
    assert 'aria-label="Patients and events per center"' not in page


def test_under_secure_sums_all_that_is_about_the_whole_stays() -> None:
    plain, secure = report_html(examples.lung()), report_html(examples.secure_sums())
    for part in ("ratios", "curves", "convergence"):
        assert section(secure, part) == section(plain, part)


def test_under_differential_privacy_a_box_comes_before_the_ratios() -> None:
    page = report_html(examples.differentially_private())
    assert page.index('id="promise"') < page.index('id="ratios"')
    for part in promises(Guarantee(1.0, 1e-5, 11, 38.25, 1.0, True, 1.83)):
        assert str(escape(part.text)) in page
    assert 'id="promise"' not in report_html(examples.secure_sums())
    assert "fitted on noisy, masked sums over 5 centers" in page


def test_under_differential_privacy_no_test_no_count_and_no_mean_is_shown() -> None:
    page = report_html(examples.differentially_private())
    assert escape(NO_COUNTS) in page
    for words in (
        "95 % interval</th>",
        ">p</th>",
        "coef (se)",
        "<dt>p</dt>",
        "<dt>Concordance</dt>",
        "<dt>95 % interval</dt>",
        "Patients at risk",
        "Events over time",
        "Events so far",
        "smallest p-values",
        "of patients</span>",
        "mean 62.4",
        "average patient</h3>",
        "not converged",
    ):
        assert words not in page
    assert "Points stand without intervals" in page
    assert "per unit · 0 to 120 in the study" in page
    assert "How far noise has moved the ratios" in page


def test_an_unprotected_reply_is_not_passed_over() -> None:
    fitted = examples.differentially_private()
    bare = LedgerRow(101, "Hospital 1", "interval counts", 72, 576, 2, 16)
    page = report_html(replace(fitted, ledger=(*fitted.ledger, bare)))
    assert "Less protected than that, and not covered by it: interval counts." in page
    assert "Less protected" not in report_html(fitted)


def test_the_study_file_and_versions_are_there_to_reproduce() -> None:
    page = report_html(replace(examples.lung(), command="fedcox fit study.toml --out RUN"))
    assert "# The lung study over five hospitals." in page
    assert "fedcox fit study.toml --out RUN" in page
    assert "fedcox 0.1.0" in page


def test_a_study_without_a_unit_is_not_reported_in_days() -> None:
    fitted = examples.lung()
    tables = fitted.study.to_dict()
    del tables["outcome"]["unit"]
    page = report_html(replace(fitted, study=Study.from_dict(tables)))
    assert "units of time" in page
    assert "days" not in page.replace("unit = &#34;days&#34;", "")


def test_cells_that_were_filled_stand_beside_the_patients_left_out() -> None:
    fitted = examples.many_centers()
    assert "filled with the mean" not in report_html(fitted)
    filled = replace(
        fitted, centers=tuple(replace(row, filled={"age": 2}) for row in fitted.centers)
    )
    counts = section(report_html(filled), "counts")
    assert "filled with the mean" in counts
    assert counts.count("age: 2<") == 20
    assert f"age: {2 * (len(fitted.centers) - 20):,}<" in counts


def test_what_the_data_cannot_say_is_said() -> None:
    page = report_html(examples.wide())
    assert "gene &lt;3&gt; &amp; co repeats what other columns already say" in page
    assert "gene &lt;4&gt; &amp; co has the same value for every patient" in page
    assert "Nothing is known beyond 360 days" in page


@pytest.mark.parametrize(("events", "few"), [(59, True), (60, False)])
def test_fewer_than_ten_events_for_a_coefficient_are_few(events: int, few: bool) -> None:
    page = report_html(replace(examples.lung(), events=events))
    assert (f"{events} events are few for 6 coefficients" in page) == few


def test_a_fit_read_from_its_file_gives_the_same_page(tmp_path: Path) -> None:
    for make in (
        examples.lung,
        examples.separated,
        examples.nothing_estimable,
        examples.secure_sums,
        examples.differentially_private,
    ):
        fitted = released(make())
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
