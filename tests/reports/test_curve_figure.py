"""Survival curves for the page."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from fedcox.reports.curve_figure import (
    MOST_CURVES,
    average_panel,
    chosen_values,
    foremost,
    group_panels,
    middle_patient,
    step_path,
    time_axis,
    words,
)
from fedcox.reports.ratio_table import covariate_groups
from fedcox.reports.study_report import report_html
from tests import fitted_examples as examples


def drawn(path: str) -> tuple[int, int, int]:
    """Where a path ends, and in how many steps."""
    across = [int(number) for number in re.findall(r"h(-?\d+)", path)]
    down = [int(number) for number in re.findall(r"v(-?\d+)", path)]
    assert min(across, default=0) >= 0
    assert min(down, default=0) >= 0
    return sum(across), sum(down), len(down)


def test_a_curve_steps_down_at_the_interval_ends() -> None:
    path = step_path(np.array([1.0, 2.0, 4.0]), np.array([0.9, 0.5, 0.5]))
    assert path == "M0 0h250v100h250v400h500"


def test_a_curve_of_28_000_intervals_is_drawn_in_few_steps_and_ends_right() -> None:
    ends = np.linspace(0.1, 2800.0, 28_000)
    across, down, steps = drawn(step_path(ends, np.exp(-ends / 2000)))
    assert (across, down) == (1000, round(1000 * (1 - np.exp(-1.4))))
    assert 100 < steps <= 151


def test_every_category_and_the_foremost_numbers_have_a_panel() -> None:
    titles = [panel.title for panel in group_panels(examples.lung())]
    assert titles == ["sex", "ph.ecog", "age", "wt.loss"]
    assert len(group_panels(examples.wide())) == 4


def test_a_category_shows_its_reference_and_every_level() -> None:
    panel = group_panels(examples.lung())[1]
    assert [curve.label for curve in panel.curves] == ["0 (reference)", "1", "2", "3"]
    ends = [drawn(curve.path)[1] for curve in panel.curves]
    assert ends == sorted(ends)


def test_the_reference_curve_has_the_others_at_their_means() -> None:
    fitted = examples.lung()
    x = fitted.means
    x[1] = 0.0
    reference = group_panels(fitted)[0].curves[0]
    assert reference.path == step_path(
        fitted.interval_ends, fitted.survival(np.atleast_2d(x))[0]
    )


def test_a_number_is_shown_one_deviation_around_its_mean_within_its_limits() -> None:
    labels = [curve.label for curve in group_panels(examples.lung())[2].curves]
    assert labels == ["53.3 (mean − sd)", "62.4 (mean)", "71.5 (mean + sd)"]


def test_a_number_of_zeros_and_ones_is_shown_at_zero_and_one() -> None:
    smoker = next(p for p in group_panels(examples.every_event_time(40)) if p.title == "smoker")
    assert [curve.label for curve in smoker.curves] == ["0", "1"]


def test_levels_that_cannot_be_estimated_are_named_not_drawn() -> None:
    fitted = examples.lung()
    rows = list(fitted.coefficients)
    rows[4] = examples.not_estimated("ph.ecog_3", "constant", mean=0.0)
    panel = group_panels(replace(fitted, coefficients=tuple(rows)))[1]
    assert [curve.label for curve in panel.curves] == ["0 (reference)", "1", "2"]
    assert panel.remark == "Not estimable: 3."


def test_of_many_levels_the_most_common_are_drawn() -> None:
    levels = [f"region {i}" for i in range(20)]
    text = (
        '[outcome]\ntime = "t"\nevent = "e"\n[grid]\nwidth = 1\n[covariates.region]\n'
        f'type = "category"\nlevels = {json.dumps(levels)}\nreference = "region 0"\n'
    )
    rows = tuple(
        examples.indicator(f"region_{level}", 0.1, 0.2, share=0.01 * (i + 1))
        for i, level in enumerate(levels[1:])
    )
    (panel,) = group_panels(examples.fitted_study(text, rows, np.arange(1.0, 5.0)))
    assert len(panel.curves) == MOST_CURVES
    assert panel.curves[-1].label == "region 19"
    assert "12 more in the table" in panel.remark


def test_numbers_at_risk_are_those_at_the_start_of_the_next_interval() -> None:
    fitted = examples.lung()
    axis = time_axis(fitted)
    assert axis.ticks[1].label == "240"
    assert axis.at_risk[0] == f"{fitted.baseline[0].at_risk:,.0f}"
    assert axis.at_risk[1] == f"{fitted.baseline[8].at_risk:,.0f}"
    assert axis.events[1] == str(sum(row.events or 0 for row in fitted.baseline[:8]))


@pytest.mark.parametrize(("at_risk", "few_from"), [(10.0, None), (9.0, 50.0)])
def test_the_thin_tail_begins_where_fewer_than_ten_are_at_risk(
    at_risk: float, few_from: float | None
) -> None:
    fitted = examples.lung()
    assert time_axis(fitted).few_from is None
    tail = [
        replace(row, at_risk=at_risk) if row.interval_end > 540 else row
        for row in fitted.baseline
    ]
    thin = replace(fitted, baseline=tuple(tail))
    assert time_axis(thin).few_from == few_from
    said = "From 540 days on fewer than 10 patients are at risk" in report_html(thin)
    assert said == (few_from is not None)


def test_without_counts_the_axis_has_ticks_alone() -> None:
    axis = time_axis(examples.differentially_private())
    assert axis.ticks == time_axis(examples.lung()).ticks
    assert (axis.at_risk, axis.events, axis.few_from) == ((), (), None)


def test_under_noise_the_first_levels_are_drawn_since_none_is_known_to_be_common() -> None:
    levels = [f"region {i}" for i in range(20)]
    text = (
        '[outcome]\ntime = "t"\nevent = "e"\n[grid]\nwidth = 1\n[covariates.region]\n'
        f'type = "category"\nlevels = {json.dumps(levels)}\nreference = "region 0"\n'
    )
    rows = tuple(
        examples.indicator(f"region_{level}", 0.1, 0.2, share=0.01 * (i + 1))
        for i, level in enumerate(levels[1:])
    )
    fitted = examples.fitted_study(text, rows, np.arange(1.0, 5.0))
    (panel,) = group_panels(examples.under_differential_privacy(fitted))
    assert panel.curves[-1].label == "region 7"
    assert "The 7 first levels; 12 more in the table." in panel.remark


def test_the_average_curve_exists_without_any_coefficient() -> None:
    panel = average_panel(examples.nothing_estimable())
    assert group_panels(examples.nothing_estimable()) == ()
    assert drawn(panel.curves[0].path)[0] == 1000


def test_where_means_are_known_the_middle_is_the_mean() -> None:
    for fitted in (examples.lung(), examples.secure_sums()):
        np.testing.assert_array_equal(middle_patient(fitted), fitted.means)


def test_under_noise_the_middle_is_within_the_ranges_and_of_no_half_category() -> None:
    fitted = examples.differentially_private()
    np.testing.assert_array_equal(middle_patient(fitted), [62.4, 0.0, 0.0, 0.0, 0.0, 9.83])
    for noise, age, loss in ((1e3, 120.0, 70.0), (-1e3, 0.0, -30.0)):
        moved = tuple(replace(row, mean=row.mean + noise) for row in fitted.coefficients)
        there = middle_patient(replace(fitted, coefficients=moved))
        np.testing.assert_array_equal(there, [age, 0.0, 0.0, 0.0, 0.0, loss])


def test_the_curve_in_the_middle_is_that_patients() -> None:
    fitted = examples.differentially_private()
    panel = average_panel(fitted)
    assert panel.title == words(fitted).title != words(examples.lung()).title
    curve = fitted.survival(np.atleast_2d(middle_patient(fitted)))[0]
    assert panel.curves[0].path == step_path(fitted.interval_ends, curve)


def test_under_noise_numbers_are_shown_around_the_middle() -> None:
    labels = {
        panel.title: [curve.label for curve in panel.curves]
        for panel in group_panels(examples.differentially_private())
    }
    assert labels["age"] == ["53.3", "62.4", "71.5"]
    assert labels["wt.loss"] == ["-3.27", "9.83", "22.9"]
    assert labels["sex"] == ["male (reference)", "female"]


def test_a_range_from_zero_to_one_is_shown_at_its_ends() -> None:
    text = examples.LUNG.replace("min = 0, max = 120", "min = 0, max = 1")
    fitted = examples.differentially_private()
    fitted = replace(fitted, study=type(fitted.study).parse(text))
    assert chosen_values(fitted, covariate_groups(fitted)[0]) == [(0.0, "0"), (1.0, "1")]


def test_values_that_noise_puts_outside_the_range_are_held_within_and_not_repeated() -> None:
    fitted = examples.differentially_private()
    rows = (replace(fitted.coefficients[0], mean=-5.0), *fitted.coefficients[1:])
    fitted = replace(fitted, coefficients=rows)
    values = chosen_values(fitted, covariate_groups(fitted)[0])
    assert [label for _, label in values] == ["0", "4.1"]


@pytest.mark.parametrize("largest", [0, 1])
def test_under_noise_the_numbers_that_move_the_curve_most_come_first(largest: int) -> None:
    fitted = examples.differentially_private()
    rows = list(fitted.coefficients)
    place = (0, 5)[largest]
    rows[place] = replace(rows[place], coef=2.0, ratio=np.e**2)
    fitted = replace(fitted, coefficients=tuple(rows))
    numbers = [group for group in covariate_groups(fitted) if group.reference is None]
    assert foremost(fitted, numbers)[0].name == ("age", "wt.loss")[largest]
