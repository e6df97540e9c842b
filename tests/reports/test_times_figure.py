"""Histograms of follow-up: true counts, and no bar about too few patients."""

from __future__ import annotations

import math
import re
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcox.reports.evaluation_figures import TimesFigure, joined, times_figure
from fedcox.survival.cohort import Cohort, FloatArray


def center(times: FloatArray) -> Cohort:
    return Cohort(np.zeros((times.size, 1)), times, np.arange(times.size) % 2 == 0)


def figure_of(*times: FloatArray, fewest: int = 5) -> TimesFigure:
    return times_figure(
        {f"center {k}": center(part) for k, part in enumerate(times)},
        unit="days",
        fewest=fewest,
    )


def drawn_areas(path: str) -> list[float]:
    """Width times height of every box of a path."""
    boxes = re.findall(r"M([\d.]+) 100V([\d.]+)H([\d.]+)V100Z", path)
    return [(float(right) - float(left)) * (100 - float(top)) for left, top, right in boxes]


@given(st.lists(st.integers(0, 12), max_size=60), st.integers(1, 8))
def test_joined_bins_hold_everyone_and_never_too_few(counts: list[int], fewest: int) -> None:
    groups = joined(counts, fewest)
    assert all(patients >= fewest for _, _, patients in groups)
    assert all(sum(counts[first:past]) == patients for first, past, patients in groups)
    assert all(before[1] <= after[0] for before, after in pairwise(groups))
    total = sum(counts)
    assert sum(patients for _, _, patients in groups) == (total if total >= fewest else 0)


def test_bins_that_hold_enough_stay_apart_and_empty_ones_empty() -> None:
    assert joined([0, 5, 0, 0, 7, 0], 5) == [(1, 2, 5), (4, 5, 7)]
    assert joined([2, 0, 3, 1], 5) == [(0, 4, 6)]
    assert joined([1, 3], 5) == []
    assert joined([1, 0, 1], 1) == [(0, 1, 1), (2, 3, 1)]


def test_bars_count_the_patients_between_their_edges() -> None:
    times = np.random.default_rng(1).uniform(0.0, 1500.0, size=400)
    times[0] = 0.0
    (row,) = figure_of(times).rows
    assert sum(bar.patients for bar in row.bars) == 400
    for bar in row.bars:
        inside = (times > bar.low) & (times <= bar.high)
        if bar.low == 0.0:
            inside |= times == 0.0
        assert int(inside.sum()) == bar.patients >= 5


def test_the_area_of_a_bar_is_in_proportion_to_its_patients() -> None:
    times = np.random.default_rng(2).exponential(300.0, size=300)
    (row,) = figure_of(times).rows
    areas = np.array(drawn_areas(row.path))
    patients = np.array([bar.patients for bar in row.bars])
    assert areas / areas.sum() == pytest.approx(patients / patients.sum(), abs=2e-3)


def test_no_edge_is_a_single_patients_time() -> None:
    times = np.array([13.7, 91.3, 211.9, 388.1, 402.2, 517.3, 655.5])
    (row,) = figure_of(times).rows
    edges = {edge for bar in row.bars for edge in (bar.low, bar.high)}
    assert not edges & set(times.tolist())
    assert row.bars[-1].high > times.max()


def test_a_center_of_fewer_than_five_is_not_shown() -> None:
    many = np.linspace(1.0, 100.0, 50)
    figure = figure_of(many, np.array([3.0, 50.0, 90.0]))
    assert figure.rows[1].bars == ()
    assert figure.rows[1].path == ""
    assert figure.rows[1].size == "fewer than 5 patients: not shown"
    assert figure.rows[0].size == "50 patients, 50 % events"


@pytest.mark.parametrize(
    ("events", "words"),
    [
        (0, "fewer than 5 events"),
        (1, "fewer than 5 events"),
        (4, "fewer than 5 events"),
        (5, "3.4 % events"),
        (143, "97 % events"),
        (144, "fewer than 5 without the event"),
        (148, "fewer than 5 without the event"),
    ],
)
def test_no_share_tells_of_fewer_than_five_patients(events: int, words: str) -> None:
    patients = Cohort(np.zeros((148, 1)), np.linspace(1.0, 9.0, 148), np.arange(148) < events)
    (row,) = times_figure({"center": patients}, unit="days").rows
    assert row.size == f"148 patients, {words}"
    assert row.words.startswith(f"center: 148 patients, {words};")
    (row,) = times_figure({"center": patients}, unit="days", fewest=1).rows
    assert "fewer" not in row.size


def test_simulated_patients_may_be_shown_one_by_one() -> None:
    (row,) = figure_of(np.array([1.0, 2.0, 9.0]), fewest=1).rows
    assert [bar.patients for bar in row.bars] == [1, 1, 1]


def test_a_long_tail_is_cut_and_counted() -> None:
    times = np.append(np.linspace(0.01, 1.0, 500), [30.0] * 6)
    figure = figure_of(times)
    assert figure.cut
    (row,) = figure.rows
    assert math.isinf(row.bars[-1].high)
    assert sum(bar.patients for bar in row.bars) == 506
    assert not figure_of(np.linspace(0.01, 1.0, 500)).cut


def test_everyone_at_time_zero_and_nobody_at_all() -> None:
    (row,) = figure_of(np.zeros(8)).rows
    assert sum(bar.patients for bar in row.bars) == 8
    (row,) = figure_of(np.zeros(0)).rows
    assert row.bars == ()
