"""Box plots: places on the axis are the numbers themselves."""

from __future__ import annotations

import numpy as np
import pytest

from fedcox.reports.evaluation_figures import BoxFigure, Sample, SamplePanel, box_figure

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
