"""Axes, ticks, and lines over a pair of axes."""

from __future__ import annotations

import re

import numpy as np
import pytest

from fedcox.reports.plot import (
    Line,
    ValueAxis,
    equal_width,
    line_plot,
    plain_axis,
    power_ticks,
    powers_axis,
    ratios_axis,
    time_ticks,
)
from fedcox.survival.event_pieces import nice_step


def test_ticks_of_equal_intervals_are_interval_ends() -> None:
    ends = np.arange(30.0, 1081.0, 30.0)
    ticks = time_ticks(ends)
    assert ticks == (0.0, 240.0, 480.0, 720.0, 960.0)
    assert set(ticks[1:]) <= set(ends.tolist())


def test_a_short_last_interval_keeps_the_ticks_on_the_grid() -> None:
    ends = np.array([30.0, 60.0, 90.0, 100.0])
    assert equal_width(ends) == 30.0
    assert time_ticks(ends) == (0.0, 30.0, 60.0, 90.0)


def test_one_interval_has_a_tick_at_both_ends() -> None:
    assert time_ticks(np.array([365.0])) == (0.0, 365.0)


def test_event_times_have_round_ticks() -> None:
    assert time_ticks(np.array([3.0, 11.0, 50.0, 971.0])) == (0.0, 200.0, 400.0, 600.0, 800.0)


@pytest.mark.parametrize("intervals", [1, 2, 5, 6, 7, 13, 100, 365, 5000])
def test_there_are_never_more_than_six_time_ticks(intervals: int) -> None:
    assert 2 <= len(time_ticks(np.arange(1.0, intervals + 1))) <= 6


@pytest.mark.parametrize("span", [1e-6, 0.3, 1.0, 7.0, 1080.0, 1e9])
def test_a_nice_step_is_just_large_enough(span: float) -> None:
    step = nice_step(span, 5)
    assert span / 5 <= step * (1 + 1e-9)
    assert step <= 2.5 * span / 5


def test_powers_of_ten_hold_the_values() -> None:
    first, last, labelled = power_ticks(3e-13, 250.0)
    assert 10.0**first <= 3e-13
    assert 10.0**last >= 250.0
    assert 3 <= len(labelled) <= 7


@pytest.mark.parametrize(
    "values",
    [
        [0.613, 0.742],
        [0.5, 0.5],
        [-3.2, 7.9],
        [0.3, 0.6, 0.9],
        [1e-9, 2e-9],
        [1200.0, 98_000.0],
    ],
)
def test_a_plain_axis_holds_its_values_between_round_ends(values: list[float]) -> None:
    axis = plain_axis(values)
    assert axis.low <= min(values) + 1e-12
    assert axis.high >= max(values) - 1e-12
    assert [axis.ticks[0].place, axis.ticks[-1].place] == [0.0, 100.0]
    assert 2 <= len(axis.ticks) <= 7
    assert len({tick.label for tick in axis.ticks}) == len(axis.ticks)


def test_round_values_are_the_ends_of_a_plain_axis() -> None:
    axis = plain_axis([0.1, 0.3], most=2)  # 0.3 / 0.1 is a little below 3 in doubles
    assert (axis.low, axis.high) == pytest.approx((0.1, 0.3))


def test_labels_stand_at_their_own_values() -> None:
    for axis in (plain_axis([0.61, 0.74]), ratios_axis([0.2, 3.1]), ratios_axis([0.97, 1.1])):
        for tick in axis.ticks:
            assert axis.place(float(tick.label)) == pytest.approx(tick.place, abs=0.02)


def test_a_power_axis_goes_from_power_to_power() -> None:
    axis = powers_axis([30.0, 72_072.0])
    assert (axis.low, axis.high) == (10.0, 100_000.0)
    assert axis.place(1000.0) == 50.0
    assert [tick.label for tick in axis.ticks] == ["10¹", "10²", "10³", "10⁴", "10⁵"]


def test_ratios_far_apart_stand_on_a_logarithmic_axis() -> None:
    axis = ratios_axis([0.22, 3.1])
    assert axis.logarithmic
    assert [tick.label for tick in axis.ticks] == ["0.2", "0.5", "1", "2", "5"]
    assert axis.place(1.0) == pytest.approx(50.0)
    assert not ratios_axis([0.9, 1.2]).logarithmic


def places(path: str) -> list[tuple[int, int]]:
    numbers = [int(number) for number in re.findall(r"\d+", path)]
    return list(zip(numbers[::2], numbers[1::2], strict=True))


def test_points_are_placed_by_both_axes() -> None:
    across = ValueAxis(10, 1000, (), logarithmic=True)
    up = powers_axis([1.0, 10_000.0])
    plot = line_plot(
        [Line("a", [(10, 1.0), (100, 100.0), (1000, 10_000.0)])], across, up, alt=""
    )
    assert places(plot.lines[0].path) == [(0, 1000), (500, 500), (1000, 0)]
    assert plot.lines[0].dots == "M0 1000h0M500 500h0M1000 0h0"


def test_ticks_of_the_vertical_axis_count_from_the_top() -> None:
    plot = line_plot([], plain_axis([0, 1]), plain_axis([0, 4]), alt="")
    assert plot.y_ticks[0].place == 100.0
    assert plot.y_ticks[-1].place == 0.0
    assert plot.x_ticks[0].place == 0.0


def test_a_level_has_its_height() -> None:
    axis = plain_axis([0.0, 2.0])
    assert line_plot([], axis, axis, alt="", level=0.5).level == pytest.approx(750)
    assert line_plot([], axis, axis, alt="").level is None


def test_many_points_have_no_dots_and_no_points_no_path() -> None:
    axis = plain_axis([0, 100])
    few, many = (Line("", [(x, x) for x in range(size)]) for size in (40, 41))
    plot = line_plot([many, Line("none", []), few], axis, axis, alt="")
    assert plot.lines[0].dots == ""
    assert len(places(plot.lines[0].path)) == 41
    assert plot.lines[1].path == ""
    assert len(places(plot.lines[2].dots)) > 40


def test_a_style_gives_colour_and_dashes_unless_others_are_asked_for() -> None:
    axis = plain_axis([0, 1])
    lines = [Line("a", [], 3), Line("b", [], 1, dashes=2), Line("c", [], 7), Line("d", [], 8)]
    plot = line_plot(lines, axis, axis, alt="")
    assert [line.classes for line in plot.lines] == ["c3", "c1 dash2", "c7", "c0"]
