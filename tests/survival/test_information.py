from __future__ import annotations

import numpy as np
import pytest

from fedcox.survival.information import (
    aliased_columns,
    constant_columns,
    separated_columns,
)


def test_a_direction_that_lost_its_information_names_its_column() -> None:
    without_effects = 100 * np.eye(3)
    information = np.diag([80.0, 1e-6, 120.0])
    assert separated_columns(information, without_effects).tolist() == [False, True, False]


def test_two_columns_that_run_away_together_are_both_named() -> None:
    # Known: the sum of the first two, and the third. Gone: their difference.
    known = np.array([[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    gone = np.array([[1.0, -1.0, 0.0]])
    information = 50 * known.T @ known + 1e-7 * gone.T @ gone
    assert separated_columns(information, 100 * np.eye(3)).tolist() == [True, True, False]


def test_columns_that_resemble_each_other_are_not_separated() -> None:
    alike = np.array([[1.0, 1 - 1e-9], [1 - 1e-9, 1.0]])
    assert not separated_columns(30 * alike, 100 * alike).any()


def test_strong_effects_keep_enough_information() -> None:
    assert not separated_columns(np.diag([0.5, 90.0]), 100 * np.eye(2)).any()


def test_information_below_rounding_counts_as_gone() -> None:
    information = np.diag([-1e-18, 10.0])
    assert separated_columns(information, 10 * np.eye(2)).tolist() == [True, False]


def test_no_columns_are_no_columns() -> None:
    assert separated_columns(np.empty((0, 0)), np.empty((0, 0))).shape == (0,)


@pytest.mark.parametrize(("left", "separated"), [(2e-4, False), (5e-5, True)])
def test_one_event_where_ten_thousand_were_to_be_expected_is_kept(
    left: float, separated: bool
) -> None:
    information = np.diag([100 * left, 90.0])
    assert separated_columns(information, 100 * np.eye(2)).tolist() == [separated, False]


@pytest.mark.parametrize(("share", "separated"), [(0.55, True), (0.45, False)])
def test_a_column_is_separated_where_most_of_its_variance_is(
    share: float, separated: bool
) -> None:
    # Directions of 1e-5 and of 2 · 1e-4, of which the first alone has died away.
    part = np.sqrt(share / (share + 20.0 * (1.0 - share)))
    gone = np.array([part, np.sqrt(1.0 - part**2)])
    left = np.array([gone[1], -gone[0]])
    information = 1e-5 * np.outer(gone, gone) + 2e-4 * np.outer(left, left)
    assert separated_columns(information, np.eye(2))[0] == separated


@pytest.mark.parametrize(("left", "aliased"), [(2e-11, False), (5e-12, True)])
def test_a_column_is_aliased_by_how_little_of_its_variance_is_left(
    left: float, aliased: bool
) -> None:
    alike, size = np.sqrt(1.0 - left), np.array([3.0, 1e4])
    scatter = np.array([[1.0, alike], [alike, 1.0]]) * np.outer(size, size)
    assert aliased_columns(scatter, np.ones(2, dtype=np.bool_)).tolist() == [False, aliased]


@pytest.mark.parametrize(("spread", "constant"), [(2e-12, False), (5e-13, True)])
def test_a_column_is_constant_to_the_rounding_of_its_mean(
    spread: float, constant: bool
) -> None:
    patients, mean = 40, np.array([-2000.0])
    scatter = np.array([[patients * (2000.0 * spread) ** 2]])
    assert constant_columns(scatter, mean, patients).tolist() == [constant]
