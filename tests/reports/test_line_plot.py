"""Lines: points stand where their values are."""

from __future__ import annotations

import re

import pytest

from fedcox.reports.plot import MOST_DOTS, Line, ValueAxis, line_plot, plain_axis, powers_axis


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
    many = Line("many", [(x, x) for x in range(MOST_DOTS + 1)])
    plot = line_plot([many, Line("none", [])], axis, axis, alt="")
    assert plot.lines[0].dots == ""
    assert len(places(plot.lines[0].path)) == MOST_DOTS + 1
    assert plot.lines[1].path == ""


def test_a_style_gives_colour_and_dashes_unless_others_are_asked_for() -> None:
    axis = plain_axis([0, 1])
    plot = line_plot([Line("a", [], 3), Line("b", [], 1, dashes=2)], axis, axis, alt="")
    assert [line.classes for line in plot.lines] == ["c3", "c1 dash2"]
