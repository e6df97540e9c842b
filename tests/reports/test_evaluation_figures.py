"""Histograms of follow-up, and box plots."""

from __future__ import annotations

import math
import re
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcox.reports.evaluation_figures import (
    BoxFigure,
    Sample,
    SamplePanel,
    TimesFigure,
    box_figure,
    joined,
    times_figure,
)
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


@pytest.mark.parametrize(("times_the_bulk", "cut"), [(1.99, False), (2.01, True)])
def test_a_tail_is_long_beyond_twice_what_nineteen_of_twenty_are_followed(
    times_the_bulk: float, cut: bool
) -> None:
    usual = np.linspace(0.01, 1.0, 500)
    bulk = np.sort(usual)[round(0.95 * 505)]
    assert figure_of(np.append(usual, [times_the_bulk * bulk] * 6)).cut == cut


def test_everyone_at_time_zero_and_nobody_at_all() -> None:
    (row,) = figure_of(np.zeros(8)).rows
    assert sum(bar.patients for bar in row.bars) == 8
    (row,) = figure_of(np.zeros(0)).rows
    assert row.bars == ()


VALUES = np.random.default_rng(0).normal(0.7, 0.03, size=40)


def value_at(figure: BoxFigure, place: float) -> float:
    axis = figure.axis
    return axis.low + place / 100 * (axis.high - axis.low)


def resolution(figure: BoxFigure) -> float:
    """Places are kept to a hundredth of a per cent."""
    return 0.5e-4 * (figure.axis.high - figure.axis.low) * 1.001


def one_row(*values: float, expected: float | None = None) -> BoxFigure:
    return box_figure([SamplePanel("panel", [Sample("row", values, expected=expected)])])


def test_dots_are_the_values_in_their_order() -> None:
    figure = one_row(*VALUES)
    dots = figure.panels[0].rows[0].dots
    drawn = [value_at(figure, dot.place) for dot in dots]
    assert drawn == pytest.approx(VALUES.tolist(), abs=resolution(figure))


def test_the_box_is_that_of_the_quantiles() -> None:
    figure = one_row(*VALUES)
    box = figure.panels[0].rows[0].box
    assert box is not None
    drawn = [value_at(figure, place) for place in (box.first, box.median, box.third)]
    # Not numpy's own function but its definition: linear between order statistics.
    ordered = np.sort(VALUES)
    quantiles = np.interp(np.array([0.25, 0.5, 0.75]) * 39, np.arange(40), ordered)
    assert drawn == pytest.approx(quantiles.tolist(), abs=resolution(figure))


def test_whiskers_end_at_the_last_value_within_reach() -> None:
    # Quartiles 2 and 4: whiskers may go to −1 and 7; 1 and 6.9 are the last values there.
    figure = one_row(1.0, 2.0, 3.0, 4.0, 6.9)
    box = figure.panels[0].rows[0].box
    assert box is not None
    assert value_at(figure, box.low) == pytest.approx(1.0, abs=resolution(figure))
    assert value_at(figure, box.high) == pytest.approx(6.9, abs=resolution(figure))
    figure = one_row(1.0, 2.0, 3.0, 4.0, 7.1)
    box = figure.panels[0].rows[0].box
    assert box is not None
    assert value_at(figure, box.high) == pytest.approx(4.0, abs=resolution(figure))
    assert len(figure.panels[0].rows[0].dots) == 5


def test_all_panels_share_one_axis_that_holds_everything() -> None:
    figure = box_figure(
        [
            SamplePanel("one", [Sample("a", [0.55, 0.6]), Sample("b", [0.8], expected=0.84)]),
            SamplePanel("two", [Sample("a", [0.61])]),
        ]
    )
    assert figure.axis.low <= 0.55
    assert figure.axis.high >= 0.84
    expected = figure.panels[0].rows[1].expected
    assert expected is not None
    assert value_at(figure, expected) == pytest.approx(0.84, abs=resolution(figure))
    assert figure.any_expected
    assert figure.panels[1].rows[0].expected is None


def test_chance_is_drawn_only_where_the_axis_reaches_it() -> None:
    assert one_row(0.7, 0.8).chance is None
    figure = one_row(0.45, 0.8)
    assert figure.chance is not None
    assert value_at(figure, figure.chance) == pytest.approx(0.5, abs=resolution(figure))


def test_the_jitter_is_the_same_in_every_run_and_stays_in_its_band() -> None:
    heights = [dot.height for dot in one_row(*VALUES).panels[0].rows[0].dots]
    assert heights == [dot.height for dot in one_row(*VALUES[::-1]).panels[0].rows[0].dots]
    assert min(heights) >= 22
    assert max(heights) <= 78
    assert len(set(heights)) == len(heights)


def test_a_row_without_values_has_no_box() -> None:
    figure = box_figure(
        [SamplePanel("p", [Sample("none", [float("nan")]), Sample("one", [0.6])])]
    )
    empty, single = figure.panels[0].rows
    assert empty.box is None
    assert empty.dots == ()
    assert empty.words == "none: no value."
    assert single.box is None
    assert len(single.dots) == 1
    assert box_figure([SamplePanel("p", [Sample("none", [])])]).panels[0].rows[0].box is None


def test_fewer_than_five_values_are_dots_alone() -> None:
    four, five = (one_row(*VALUES[:size]).panels[0].rows[0] for size in (4, 5))
    assert four.box is None
    assert len(four.dots) == 4
    assert "quartiles" not in four.words
    assert five.box is not None
    assert "quartiles" in five.words
    alike = one_row(*[0.7] * 5).panels[0].rows[0].box
    assert alike is not None
    assert alike.width == 0


def test_words_say_the_same_numbers() -> None:
    row = Sample("row", [0.6, 0.65, 0.7, 0.75, 0.8], expected=0.75)
    figure = box_figure([SamplePanel("panel", [row])], source="the stored run")
    assert figure.panels[0].rows[0].words == (
        "row: median 0.700, quartiles 0.650 and 0.750, range 0.600 to 0.800, 5 in all. "
        "the stored run: 0.750."
    )
