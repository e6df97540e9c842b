"""The forest plot."""

from __future__ import annotations

import math

import pytest

from fedcox.reports.forest_figure import ForestInterval, forest_figure, ratio_axis
from fedcox.study.fitted import FittedStudy
from tests import fitted_examples as examples


def intervals(fitted: FittedStudy) -> list[ForestInterval]:
    bars = [bar for bar in forest_figure(fitted).bars if bar is not None]
    return [bar.interval for bar in bars if bar.interval is not None]


def test_every_column_has_a_bar_or_none() -> None:
    figure = forest_figure(examples.wide())
    assert len(figure.bars) == 60
    assert [i for i, bar in enumerate(figure.bars) if bar is None] == [3, 4]


def test_point_and_interval_are_in_order_and_within_the_axis() -> None:
    for fitted in (examples.lung(), examples.wide(), examples.separated()):
        for bar in forest_figure(fitted).bars:
            if bar is not None:
                assert bar.interval is not None
                assert 0 <= bar.interval.low <= bar.point <= bar.interval.high <= 100


def test_a_ratio_above_one_lies_right_of_the_centre() -> None:
    fitted = examples.lung()
    for row, bar in zip(fitted.coefficients, forest_figure(fitted).bars, strict=True):
        assert bar is not None
        assert row.ratio is not None
        assert (bar.point > 50) == (row.ratio > 1)


def test_an_interval_far_longer_than_the_others_is_cut_and_says_so() -> None:
    drawn = intervals(examples.lung())
    assert [interval.cut_high for interval in drawn] == [
        False,
        False,
        False,
        False,
        True,
        False,
    ]
    assert not any(interval.cut_low for interval in drawn)


def test_nothing_estimable_leaves_an_axis_without_bars() -> None:
    figure = forest_figure(examples.nothing_estimable())
    assert figure.bars == (None,)
    assert len(figure.ticks) >= 3


def test_under_noise_points_stand_alone_and_all_within_the_axis() -> None:
    fitted = examples.differentially_private()
    figure = forest_figure(fitted)
    assert intervals(fitted) == []
    places = [bar.point for bar in figure.bars if bar is not None]
    assert len(places) == 6
    assert all(0 < place < 100 for place in places)  # a ratio of 7.04 sets the axis
    assert max(places) > 90


def test_one_is_at_the_centre_of_the_ratio_axis() -> None:
    axis = ratio_axis([0.5, 2.0], [(0.3, 0.8), (1.2, 3.4)])
    assert axis.place(1.0) == 50.0
    assert axis.place(0.5) == pytest.approx(100 - axis.place(2.0))
    assert any(tick.label == "1" and tick.place == 50.0 for tick in axis.ticks)


@pytest.mark.parametrize("spread", [0.001, 0.01, 0.1, 0.5, 1.0, 2.0, 3.0, 5.0, 100.0])
def test_every_ratio_axis_has_three_to_nine_ticks_within_it(spread: float) -> None:
    axis = ratio_axis([1.0], [(math.exp(-spread), math.exp(spread))])
    assert 3 <= len(axis.ticks) <= 9
    assert all(0 <= tick.place <= 100 for tick in axis.ticks)
    assert [tick.place for tick in axis.ticks] == sorted(tick.place for tick in axis.ticks)


def test_infinite_and_zero_bounds_lie_at_the_ends() -> None:
    axis = ratio_axis([1.0], [(0.0, math.inf)])
    assert (axis.place(0.0), axis.place(math.inf)) == (0.0, 100.0)
