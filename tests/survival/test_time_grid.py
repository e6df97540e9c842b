from __future__ import annotations

import numpy as np
import pytest

from fedcox.errors import StudyError
from fedcox.survival.time_grid import CensoredInterval, Pieces, TimeGrid


def at_risk(
    grid: TimeGrid, time: list[float], event: list[bool], reading: CensoredInterval = "include"
) -> tuple[list[int], list[bool], list[float]]:
    risk = grid.at_risk(np.array(time, dtype=float), np.array(event), reading)
    return risk.passed.tolist(), risk.event.tolist(), risk.part.tolist()


def test_a_time_stands_for_the_end_of_its_interval() -> None:
    grid = TimeGrid.regular(30.0, 90.0)
    passed, event, _ = at_risk(grid, [1, 30, 31, 90], [True] * 4)
    assert passed == [0, 0, 1, 2]
    assert event == [True] * 4


def test_widths_that_are_no_binary_fractions_bin_as_in_decimal_arithmetic() -> None:
    grid = TimeGrid.regular(0.1, 5.0)
    times = [round(0.1 * k, 1) for k in range(1, 51)]
    assert at_risk(grid, times, [True] * 50)[0] == list(range(50))


def test_a_time_a_thousandth_of_a_day_later_is_in_the_next_day() -> None:
    grid, late = TimeGrid.regular(1.0, 20.0), [11.0 + 1e-7, 11.001]
    assert at_risk(grid, late, [True] * 2)[0] == [10, 11]


def test_horizon_closes_the_last_interval_and_censors_what_comes_later() -> None:
    grid = TimeGrid.regular(30.0, 70.0)
    assert grid.edges.tolist() == [30.0, 60.0, 70.0]
    for reading in ("include", "exclude", "half"):
        passed, event, part = at_risk(grid, [70.5, 100], [True, False], reading)
        assert passed == [3, 3]  # at risk to the end, whatever happened afterwards
        assert event == [False, False]
        assert part == [0.0, 0.0]


def test_three_readings_of_a_patient_censored_inside_an_interval() -> None:
    grid = TimeGrid.regular(10.0, 30.0)
    time, event = [15.0, 15.0], [True, False]
    assert at_risk(grid, time, event, "include")[0] == [1, 2]
    assert at_risk(grid, time, event, "exclude")[0] == [1, 1]
    passed, _, part = at_risk(grid, time, event, "half")
    assert passed == [1, 1]
    assert part == [0.0, 0.5]


def test_at_event_times_the_risk_set_is_coxs() -> None:
    grid = TimeGrid.at_events(np.array([5.0, 9.0, 5.0]))
    assert grid.edges.tolist() == [5.0, 9.0]
    # Censored before, at and between event times: at risk wherever still under observation.
    assert at_risk(grid, [4, 5, 7, 9, 12], [False] * 5)[0] == [0, 1, 1, 2, 2]
    assert at_risk(grid, [4, 5, 7, 9, 12], [False] * 5, "exclude")[0] == [0, 0, 1, 1, 2]
    assert at_risk(grid, [5, 9], [True, True])[0] == [0, 1]


def test_time_zero_is_placed_in_the_first_interval() -> None:
    for grid in (TimeGrid.regular(10.0, 30.0), TimeGrid.at_events(np.array([5.0, 9.0]))):
        passed, event, _ = at_risk(grid, [0.0], [True])
        assert passed == [0]
        assert event == [True]


def test_left_out_intervals_no_longer_count() -> None:
    grid = TimeGrid.regular(10.0, 40.0)
    risk = grid.at_risk(np.array([15.0, 25.0, 35.0]), np.array([True, True, False]), "half")
    active = np.array([True, False, True, True])
    within = risk.within(active)
    assert within.passed.tolist() == [1, 1, 2]
    assert within.event.tolist() == [False, True, False]  # the first event was in interval 2
    assert within.part.tolist() == [0.0, 0.0, 0.5]


@pytest.mark.parametrize("edges", [[], [1.0, 1.0], [2.0, 1.0], [1.0, np.inf], [-1.0, 1.0]])
def test_a_grid_needs_increasing_finite_edges(edges: list[float]) -> None:
    with pytest.raises(StudyError):
        TimeGrid(np.array(edges))


@pytest.mark.parametrize(
    ("width", "horizon"), [(0.0, 1.0), (-1.0, 1.0), (1.0, 0.0), (np.nan, 1.0)]
)
def test_width_and_horizon_are_positive(width: float, horizon: float) -> None:
    with pytest.raises(StudyError):
        TimeGrid.regular(width, horizon)


@pytest.mark.parametrize(
    "bounds",
    [
        np.array([3.0, 8.0]),
        np.linspace(2.0, 9.0, 700),
        10.0 ** np.linspace(-9, 1, 300),  # nearly all of them crowd at the beginning
        np.append(np.unique([5.0 + k * 1e-13 for k in range(200)]), 1e6),
    ],
)
def test_many_patients_are_placed_as_a_few_are(bounds: np.ndarray) -> None:
    """There is a quicker way for many; on a bound, next to one or beyond all it is the same."""
    rng = np.random.default_rng(1)
    near = np.concatenate([bounds, np.nextafter(bounds, 0.0), np.nextafter(bounds, 1e9)])
    time = np.concatenate([near, rng.uniform(0.0, 12.0, 20_000), [0.0, 1e300]])
    event = rng.random(time.size) < 0.5
    many = Pieces(bounds).at_risk(time, event)
    for start in range(0, time.size, 1000):
        some = slice(start, start + 1000)
        few = Pieces(bounds).at_risk(time[some], event[some])
        np.testing.assert_array_equal(many.passed[some], few.passed)
        np.testing.assert_array_equal(many.event[some], few.event)
        np.testing.assert_array_equal(many.part[some], few.part)
