"""The table a clinician reads in the terminal."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rich.console import Console, RenderableType

from fedcox.errors import FedcoxWarning
from fedcox.reports.ratio_table import (
    footer_lines,
    guarantee_panel,
    ratio_rows,
    ratio_table,
    warning_title,
    warnings_panel,
)
from fedcox.reports.study_report import report_html
from fedcox.study.fit_rows import Notice
from tests import fitted_examples as examples


def printed(renderable: RenderableType) -> str:
    console = Console(width=100, record=True, file=None, quiet=False)
    with console.capture() as capture:
        console.print(renderable)
    return capture.get()


def test_each_link_prints_its_ratio_under_its_own_name() -> None:
    hazard = printed(ratio_table(examples.lung()))
    odds = printed(ratio_table(examples.lung(link="logit")))
    assert "hazard ratio" in hazard
    assert "hazard odds ratio" in odds
    assert "hazard ratio" not in odds


def test_a_line_has_ratio_interval_p_and_coefficient() -> None:
    text = printed(ratio_table(examples.lung()))
    line = next(line for line in text.splitlines() if "ph.ecog_2" in line)
    for part in ("2.50", "1.60 to 3.91", "<0.001", "0.918 (0.228)"):
        assert part in line


def test_columns_without_a_ratio_show_a_dash_and_the_word() -> None:
    lines = printed(ratio_table(examples.wide())).splitlines()
    aliased = next(line for line in lines if "gene <3>" in line)
    assert "aliased" in aliased
    assert "–" in aliased
    assert "constant" in next(line for line in lines if "gene <4>" in line)


def test_square_brackets_in_a_name_are_not_taken_as_markup() -> None:
    fitted = examples.lung()
    odd = replace(fitted.coefficients[0], name="[red]age[/red]")
    named = replace(fitted, coefficients=(odd, *fitted.coefficients[1:]))
    assert "[red]age[/red]" in printed(ratio_table(named))


def test_the_footer_counts_patients_events_rounds_and_bytes() -> None:
    text = "\n".join(footer_lines(examples.lung()))
    for part in ("5 centers", "36 intervals", "39.0 on 6 df, p <0.001", "0.644", "5 rounds"):
        assert part in text
    assert "kB left the centers" in text


def test_the_footer_counts_cells_that_were_filled() -> None:
    fitted = examples.lung()
    assert "filled with the mean" not in printed(ratio_table(fitted))
    first, *others = fitted.centers
    centers = (replace(first, filled={"age": 3, "sex": 1}), *others)
    text = printed(ratio_table(replace(fitted, centers=centers)))
    assert "4 cells without a value filled with the mean" in text


def test_a_fit_without_a_test_or_concordance_says_so() -> None:
    text = "\n".join(footer_lines(examples.nothing_estimable()))
    assert "likelihood-ratio test none, since no coefficient was estimated" in text
    assert "concordance –" in text
    assert "not converged after 5 rounds" in text


def test_a_fit_before_its_optimum_shows_no_likelihood_ratio_test() -> None:
    """Not even one that its file holds, such as a file of an earlier version."""
    fitted = replace(examples.lung(), converged=False)
    assert fitted.likelihood_ratio is not None
    text = "\n".join(footer_lines(fitted))
    assert "likelihood-ratio test none, since the fit did not reach the maximum" in text
    assert "39.0" not in text
    assert "none, since the fit did not reach the maximum" in report_html(fitted)


def test_an_interval_beyond_all_numbers_is_said_in_words() -> None:
    rows = ratio_rows(examples.separated())
    assert rows[0].interval == "<0.0001 to >10,000"
    assert not rows[0].clear


def test_warnings_stand_in_a_panel_in_plain_words() -> None:
    assert warnings_panel(examples.lung()) is None
    fitted = replace(examples.lung(), notices=(Notice("SeparationWarning", "[b] grows."),))
    panel = warnings_panel(fitted)
    assert panel is not None
    text = printed(panel)
    assert "A coefficient without a limit. [b] grows." in text


@pytest.mark.parametrize("warning", FedcoxWarning.__subclasses__())
def test_every_warning_has_a_title_in_plain_words(warning: type[FedcoxWarning]) -> None:
    assert " " in warning_title(warning.__name__)


def test_nothing_stands_out_in_a_fit_that_did_not_converge() -> None:
    fitted = examples.lung()
    assert any(row.clear for row in ratio_rows(fitted))
    assert not any(row.clear for row in ratio_rows(replace(fitted, converged=False)))


def test_under_secure_sums_the_footer_has_totals_and_says_what_was_seen() -> None:
    plain, secure = examples.lung(), examples.secure_sums()
    text = "\n".join(footer_lines(secure))
    assert f"{plain.patients:,} patients, {plain.events} events, 5 centers" in text
    assert "concordance not computed: it compares patients of different centers" in text
    assert "secure sums: nothing of a single center was seen" in text
    assert "secure sums" not in "\n".join(footer_lines(plain))
    assert guarantee_panel(secure) is None


def test_under_noise_the_table_has_ratios_without_any_inference() -> None:
    text = printed(ratio_table(examples.differentially_private()))
    line = next(line for line in text.splitlines() if "ph.ecog_2" in line)
    assert [part.strip() for part in line.split("│")[1:-1]] == ["ph.ecog_2", "2.50", "0.918"]
    for word in ("interval ", " p ", "(se)", "patient", "event", "concordance", "None", "nan"):
        assert word not in text
    assert "5 centers, 36 intervals" in text
    assert "did not arrive, 11 noisy sums used" in text
    assert not any(row.clear for row in ratio_rows(examples.differentially_private()))


def test_under_noise_a_column_left_out_keeps_its_word() -> None:
    text = printed(ratio_table(examples.under_differential_privacy(examples.wide())))
    assert "aliased" in next(line for line in text.splitlines() if "gene <3>" in line)


def test_a_panel_says_what_is_promised_and_why_there_is_no_test() -> None:
    panel = guarantee_panel(examples.differentially_private())
    assert panel is not None
    text = " ".join(printed(panel).replace("│", " ").split())
    assert "epsilon 1, delta 1 in 100,000" in text
    assert "right in at most 73.2 % of cases" in text
    assert "epsilon is 1.83" in text
    assert "every other study or run on the same patients adds" in text
    assert "the fit did not arrive" in text
