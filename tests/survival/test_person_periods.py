from __future__ import annotations

import numpy as np

from fedcox.survival.cohort import Cohort
from fedcox.survival.person_periods import stack
from fedcox.survival.time_grid import TimeGrid

# Three patients, intervals of ten days: event on day 25, censored on day 12, event on day 8.
THREE = Cohort(
    np.array([[1.0], [2.0], [3.0]]), np.array([25.0, 12.0, 8.0]), np.array([True, False, True])
)
GRID = TimeGrid.regular(10.0, 30.0)


def test_one_row_per_patient_and_interval_at_risk() -> None:
    rows = stack(THREE, GRID, "include")
    assert rows.patient.tolist() == [0, 0, 0, 1, 1, 2]
    assert rows.interval.tolist() == [0, 1, 2, 0, 1, 0]
    assert rows.event.tolist() == [False, False, True, False, False, True]
    assert rows.weight.tolist() == [1.0] * 6


def test_the_papers_text_drops_the_interval_of_censoring() -> None:
    rows = stack(THREE, GRID, "exclude")
    assert rows.patient.tolist() == [0, 0, 0, 1, 2]


def test_half_weighs_the_interval_of_censoring_one_half() -> None:
    rows = stack(THREE, GRID, "half")
    assert rows.weight.tolist() == [1.0, 1.0, 1.0, 1.0, 0.5, 1.0]


def test_design_holds_interval_indicators_and_covariates() -> None:
    design = stack(THREE, GRID, "include").design(THREE, 3)
    assert design[2].tolist() == [0.0, 0.0, 1.0, 1.0]
    assert design[5].tolist() == [1.0, 0.0, 0.0, 3.0]
