"""The forest plot."""

from __future__ import annotations

from fedcox.reports.forest_figure import ForestInterval, forest_figure
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
