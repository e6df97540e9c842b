from __future__ import annotations

import numpy as np

from fedcox.survival.information import separated_columns


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
