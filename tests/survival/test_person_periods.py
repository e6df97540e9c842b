from __future__ import annotations

import numpy as np
import pytest
from scipy.special import log_expit
from scipy.stats import chisquare

from fedcox.survival.cohort import Cohort, FloatArray
from fedcox.survival.derivatives import Derivatives, Detail
from fedcox.survival.link import LINKS
from fedcox.survival.person_periods import CellChoice, SingleCells, single_cells, stack
from fedcox.survival.preparation import prepare
from fedcox.survival.scaling import Scaling
from fedcox.survival.time_grid import CensoredInterval, TimeGrid
from tests.problems import LINK_NAMES, READINGS, grids, simulated

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


COHORT = simulated(120, 3, seed=8)
GRIDS = tuple(grids(COHORT))
SCALING = Scaling(np.array([0, 2]), np.array([0.1, -0.2]), np.array([2.0, 0.5]))


def cells_of(
    grid_name: str, reading: CensoredInterval, cohort: Cohort = COHORT
) -> tuple[SingleCells, int]:
    grid = grids(COHORT)[grid_name]
    active = np.ones(grid.intervals, dtype=np.bool_)
    return single_cells(cohort, grid, reading, active, SCALING), grid.intervals


def scaled(covariates: FloatArray) -> FloatArray:
    return (covariates[:, [0, 2]] - SCALING.mean) / SCALING.spread


def every_pair(patients: int, intervals: int) -> tuple[np.ndarray, np.ndarray]:
    pairs = np.indices((patients, intervals)).reshape(2, -1)
    return pairs[0], pairs[1]


@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("grid_name", GRIDS)
def test_of_all_pairs_exactly_the_rows_of_the_stack_are_cells(
    grid_name: str, reading: CensoredInterval
) -> None:
    cells, intervals = cells_of(grid_name, reading)
    found = cells.among(*every_pair(COHORT.patients, intervals))
    rows = stack(COHORT, grids(COHORT)[grid_name], reading)
    assert set(zip(found.patient.tolist(), found.interval.tolist(), strict=True)) == set(
        zip(rows.patient.tolist(), rows.interval.tolist(), strict=True)
    )
    assert cells.total == found.patient.size == rows.patient.size


@pytest.mark.parametrize("name", LINK_NAMES)
@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("grid_name", GRIDS)
def test_all_cells_together_are_the_whole_loss(
    name: str, grid_name: str, reading: CensoredInterval
) -> None:
    grid, link = grids(COHORT)[grid_name], LINKS[name]
    cells, intervals = cells_of(grid_name, reading)
    rng = np.random.default_rng(3)
    alpha, beta = rng.normal(-2.0, 1.0, intervals), rng.normal(0.0, 0.5, 2)
    everything = cells.among(*every_pair(COHORT.patients, intervals))
    found = cells.gradient(link, everything, alpha, beta)
    active = np.ones(intervals, dtype=np.bool_)
    patients = prepare(COHORT, grid, reading, active, SCALING, link)
    expected = patients.derivatives(link, alpha, beta, Detail.GRADIENT)
    assert found.loss == pytest.approx(expected.loss, rel=1e-12)
    np.testing.assert_allclose(found.alpha, expected.alpha, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(found.beta, expected.beta, rtol=1e-11, atol=1e-11)


def test_a_batch_costs_the_cross_entropy_of_its_rows() -> None:
    """The paper's loss, row by row on the stack: −y log σ(θ) − (1 − y) log(1 − σ(θ))."""
    grid = grids(COHORT)["intervals"]
    cells, intervals = cells_of("intervals", "half")
    rows = stack(COHORT, grid, "half")
    rng = np.random.default_rng(5)
    chosen = rng.integers(rows.patient.size, size=80)  # some twice
    alpha, beta = rng.normal(-1.0, 1.0, intervals), rng.normal(0.0, 0.7, 2)
    found = cells.gradient(
        LINKS["logit"], CellChoice(rows.patient[chosen], rows.interval[chosen]), alpha, beta
    )
    theta = alpha[rows.interval] + scaled(COHORT.covariates)[rows.patient] @ beta
    happened = rows.event.astype(np.float64)
    cost = -happened * log_expit(theta) - (1.0 - happened) * log_expit(-theta)
    assert rows.event[chosen].any()
    assert (rows.weight[chosen] == 0.5).any()
    assert found.loss == pytest.approx(float((rows.weight * cost)[chosen].sum()), rel=1e-12)


@pytest.mark.parametrize("name", LINK_NAMES)
def test_the_gradient_agrees_with_finite_differences(name: str) -> None:
    cells, intervals = cells_of("intervals", "half")
    chosen = cells.draw(60, np.random.default_rng(1))
    point = np.concatenate([np.full(intervals, -1.5), [0.4, -0.3]])

    def at(theta: FloatArray) -> Derivatives:
        return cells.gradient(LINKS[name], chosen, theta[:intervals], theta[intervals:])

    found, step = at(point), 1e-6
    gradient = np.concatenate([found.alpha, found.beta])
    for j in range(point.size):
        shift = step * (np.arange(point.size) == j)
        slope = (at(point + shift).loss - at(point - shift).loss) / (2 * step)
        assert slope == pytest.approx(gradient[j], abs=1e-7)


def test_patients_of_other_centers_are_not_taken() -> None:
    own = np.array([3, 40, 41, 77])
    part = Cohort(COHORT.covariates[own], COHORT.time[own], COHORT.event[own], own)
    cells, intervals = cells_of("intervals", "include", part)
    found = cells.among(*every_pair(COHORT.patients + 50, intervals))
    everyone, _ = cells_of("intervals", "include")
    assert np.bincount(found.patient).tolist() == everyone.rows[own].tolist()


def test_a_center_without_patients_has_no_cells_and_no_gradient() -> None:
    empty = Cohort(np.empty((0, 3)), np.empty(0), np.empty(0, dtype=bool))
    cells, intervals = cells_of("intervals", "half", empty)
    chosen = cells.among(*every_pair(30, intervals))
    found = cells.gradient(LINKS["logit"], chosen, np.zeros(intervals), np.zeros(2))
    assert chosen.patient.size == cells.total == 0
    assert cells.draw(5, np.random.default_rng(0)).patient.size == 0
    assert found.loss == 0.0
    assert not found.alpha.any()
    assert found.beta.shape == (2,)


def test_missing_values_count_as_the_joint_mean() -> None:
    covariates = COHORT.covariates.copy()
    covariates[::5, 2] = np.nan
    filled = covariates.copy()
    filled[::5, 2] = SCALING.mean[1]
    at = np.zeros(grids(COHORT)["intervals"].intervals), np.array([0.3, 0.2])
    found, expected = (
        cells_of("intervals", "include", Cohort(x, COHORT.time, COHORT.event))[0]
        for x in (covariates, filled)
    )
    chosen = found.draw(200, np.random.default_rng(2))
    ours = found.gradient(LINKS["logit"], chosen, *at)
    assert ours.loss == expected.gradient(LINKS["logit"], chosen, *at).loss


@pytest.mark.parametrize("reading", READINGS)
def test_every_cell_of_a_center_is_drawn_equally_often(reading: CensoredInterval) -> None:
    cells, intervals = cells_of("intervals", reading)
    drawn = cells.draw(40 * cells.total, np.random.default_rng(4))
    place = drawn.patient * intervals + drawn.interval
    counts = np.bincount(place, minlength=COHORT.patients * intervals)
    rows = stack(COHORT, grids(COHORT)["intervals"], reading)
    at_rows = counts[rows.patient * intervals + rows.interval]
    assert at_rows.sum() == drawn.patient.size  # nothing but cells
    assert chisquare(at_rows).pvalue > 1e-3


def test_a_certain_event_costs_nothing_and_no_number_overflows() -> None:
    covariates = COHORT.covariates.copy()
    first = int(np.flatnonzero(COHORT.event)[0])
    covariates[first, 0] = 1e5
    cohort = Cohort(covariates, COHORT.time, COHORT.event)
    for name in LINK_NAMES:
        cells, intervals = cells_of("intervals", "include", cohort)
        event = CellChoice(np.array([first]), cells.event_at[[first]])
        found = cells.gradient(LINKS[name], event, np.zeros(intervals), np.array([1.0, 0.0]))
        assert found.loss == pytest.approx(0.0, abs=1e-200)
        assert np.abs(found.beta).max() < 1e-200
