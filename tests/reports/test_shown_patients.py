"""The patients whom curves are drawn for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fedcox.reports.covariate_groups import covariate_groups
from fedcox.reports.curve_figure import (
    average_panel,
    chosen_values,
    foremost,
    group_panels,
    middle_patient,
    step_path,
    words,
)
from tests import fitted_examples as examples


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
