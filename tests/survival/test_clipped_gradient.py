from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedcox.survival.clipped_gradient import (
    ClippedSum,
    Clipping,
    clipped_gradient,
    patient_shares,
)
from fedcox.survival.cohort import Cohort, FloatArray, IntArray
from fedcox.survival.derivatives import Detail
from fedcox.survival.link import LINKS
from fedcox.survival.preparation import prepare
from fedcox.survival.scaling import Scaling
from fedcox.survival.single_cells import SingleCells, single_cells
from fedcox.survival.time_grid import CensoredInterval, TimeGrid
from tests.problems import LINK_NAMES, READINGS, grids, simulated, split

COHORT = simulated(150, 3, seed=4)
GRID = TimeGrid.regular(20.0, 200.0)
SCALING = Scaling(np.array([0, 2]), np.array([0.1, -0.2]), np.array([2.0, 0.5]))
UNBOUNDED = Clipping(np.inf, 1.0, 1.0)
#: From nothing to the ends of what a double holds.
EXTREME = st.sampled_from(
    [0.0, 1e-300, -1e-8, 0.3, -1.0, 2.0, 50.0, -800.0, 1e9, -1e150, 1e300, -1.7e308]
)


def cells_of(
    cohort: Cohort,
    grid: TimeGrid = GRID,
    reading: CensoredInterval = "include",
    scaling: Scaling = SCALING,
) -> SingleCells:
    active = np.ones(grid.intervals, dtype=np.bool_)
    return single_cells(cohort, grid, reading, active, scaling)


def point(intervals: int, columns: int = 2, seed: int = 3) -> tuple[FloatArray, FloatArray]:
    rng = np.random.default_rng(seed)
    return rng.normal(-2.0, 1.0, intervals), rng.normal(0.0, 0.5, columns)


def joined(summed: ClippedSum) -> FloatArray:
    return np.concatenate([summed.alpha, summed.beta])


@pytest.mark.parametrize("name", LINK_NAMES)
@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("grid_name", tuple(grids(COHORT)))
def test_without_a_bound_it_is_the_gradient(
    name: str, reading: CensoredInterval, grid_name: str
) -> None:
    grid, link = grids(COHORT)[grid_name], LINKS[name]
    alpha, beta = point(grid.intervals)
    found = clipped_gradient(
        cells_of(COHORT, grid, reading), link, (alpha, beta), Clipping(np.inf, 0.25, 3.0)
    )
    active = np.ones(grid.intervals, dtype=np.bool_)
    patients = prepare(COHORT, grid, reading, active, SCALING, link)
    expected = patients.derivatives(link, alpha, beta, Detail.GRADIENT)
    np.testing.assert_allclose(found.alpha, 0.25 * expected.alpha, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(found.beta, 3.0 * expected.beta, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("name", LINK_NAMES)
def test_a_share_is_the_patients_own_gradient_shortened(name: str) -> None:
    """One patient a cohort, by the kernel that fits use: the whole vector is scaled, once."""
    link, where = LINKS[name], point(GRID.intervals)
    clipping = Clipping(2.0, 0.5, 1.5)
    shares = patient_shares(cells_of(COHORT), link, where, clipping, np.arange(30))
    for row, share in enumerate(shares):
        alone = Cohort(COHORT.covariates[[row]], COHORT.time[[row]], COHORT.event[[row]])
        active = np.ones(GRID.intervals, dtype=np.bool_)
        own = prepare(alone, GRID, "include", active, SCALING, link).derivatives(
            link, *where, Detail.GRADIENT
        )
        whole = np.concatenate([0.5 * own.alpha, 1.5 * own.beta])
        expected = whole * min(1.0, 2.0 / np.linalg.norm(whole))
        np.testing.assert_allclose(share, expected, rtol=1e-10, atol=1e-13)


def test_the_bound_is_met_by_some_and_exceeded_by_nobody() -> None:
    shares = patient_shares(
        cells_of(COHORT),
        LINKS["cloglog"],
        point(GRID.intervals),
        Clipping(2.0, 1.0, 1.0),
        np.arange(COHORT.patients),
    )
    lengths = np.linalg.norm(shares, axis=1)
    assert lengths.max() <= 2.0
    assert 10 < np.count_nonzero(lengths > 2.0 * (1 - 1e-11)) < COHORT.patients


@st.composite
def extreme_cohorts(draw: st.DrawFn) -> Cohort:
    patients = draw(st.integers(1, 6))
    covariates = draw(arrays(np.float64, (patients, 2), elements=EXTREME))
    time = draw(arrays(np.float64, patients, elements=st.floats(0.0, 300.0)))
    return Cohort(covariates, time, draw(arrays(np.bool_, patients)))


@given(
    cohort=extreme_cohorts(),
    alpha=arrays(np.float64, GRID.intervals, elements=EXTREME),
    beta=arrays(np.float64, 2, elements=EXTREME),
    bound=st.sampled_from([1e-6, 0.5, 1.0, 1e6]),
    scales=st.tuples(st.sampled_from([1e-3, 1.0, 30.0]), st.sampled_from([1e-3, 1.0, 30.0])),
    resolution=st.sampled_from([None, 2.0**-20, 0.25]),
    name=st.sampled_from(LINK_NAMES),
    reading=st.sampled_from(READINGS),
)
@settings(max_examples=150, deadline=None)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # the cohort's own sums overflow
def test_one_patient_more_or_less_moves_a_clipped_sum_by_at_most_the_bound(
    cohort: Cohort,
    alpha: FloatArray,
    beta: FloatArray,
    bound: float,
    scales: tuple[float, float],
    resolution: float | None,
    name: str,
    reading: CensoredInterval,
) -> None:
    clipping = Clipping(bound, *scales)
    cells = cells_of(cohort, reading=reading, scaling=Scaling.none(2))

    def summed(patients: list[int]) -> FloatArray:
        rows = np.array(patients, dtype=np.int64)
        return joined(
            clipped_gradient(
                cells,
                LINKS[name],
                (alpha, beta),
                clipping,
                patients=rows,
                resolution=resolution,
            )
        )

    everybody = list(range(cohort.patients))
    whole = summed(everybody)
    # Each of the T + P numbers of a share is rounded by up to half a unit.
    rounding = 0.0 if resolution is None else 0.5 * resolution * np.sqrt(whole.size)
    for left_out in everybody:
        moved = whole - summed([row for row in everybody if row != left_out])
        assert np.linalg.norm(moved) <= (bound + rounding) * (1 + 1e-12)


@pytest.mark.parametrize("name", LINK_NAMES)
@pytest.mark.parametrize("reading", READINGS)
def test_a_share_does_not_depend_on_the_other_patients(
    name: str, reading: CensoredInterval
) -> None:
    """To the last bit: else one patient more would move the others' rounded shares, too."""
    cohort = simulated(400, 37, seed=6)
    cells = cells_of(cohort, reading=reading, scaling=Scaling.none(37))
    where, clipping = point(GRID.intervals, 37), Clipping(1.0, 0.3, 0.2)

    def shares(rows: IntArray) -> FloatArray:
        return patient_shares(cells, LINKS[name], where, clipping, rows)

    together = shares(np.arange(400))
    rng = np.random.default_rng(2)
    for size in (1, 2, 3, 5, 8, 31, 399):
        some = rng.choice(400, size, replace=False)
        assert np.array_equal(shares(some), together[some])


def test_rounded_shares_add_up_to_the_same_however_patients_are_split() -> None:
    clipping = Clipping(0.7, 0.3, 1.0)
    where, link = point(GRID.intervals), LINKS["logit"]

    def summed(cohort: Cohort) -> FloatArray:
        return joined(
            clipped_gradient(cells_of(cohort), link, where, clipping, resolution=2.0**-22)
        )

    center = np.random.default_rng(1).integers(0, 4, COHORT.patients)
    center[0] = 5  # one of the six centers has one patient, one has none
    parts = np.array([summed(part) for part in split(COHORT, center, 6).values()])
    assert parts.sum(axis=0).tolist() == summed(COHORT).tolist()


def test_blocks_of_patients_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    where, link = point(GRID.intervals), LINKS["cloglog"]
    whole = joined(clipped_gradient(cells_of(COHORT), link, where, UNBOUNDED))
    monkeypatch.setattr("fedcox.survival.clipped_gradient._BLOCK", 40)
    blocks = joined(clipped_gradient(cells_of(COHORT), link, where, UNBOUNDED))
    np.testing.assert_allclose(blocks, whole, rtol=1e-12, atol=1e-12)


def test_nobody_gives_zero() -> None:
    empty = Cohort(np.empty((0, 3)), np.empty(0), np.empty(0, dtype=np.bool_))
    found = clipped_gradient(cells_of(empty), LINKS["logit"], point(GRID.intervals), UNBOUNDED)
    assert not joined(found).any()
    assert joined(found).size == GRID.intervals + 2
