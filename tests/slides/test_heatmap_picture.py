"""The picture of a slide's tile scores: right place, right colour, the same for every slide."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from fedcox.errors import SlideError
from fedcox.slides.drawing import round_length
from fedcox.slides.heatmap_picture import HeatmapScene, draw_heatmap, overlay, reading_lines
from fedcox.slides.tile_scores import (
    ColourKey,
    ScoredTiles,
    ScoreScale,
    check_mean,
    colours_at,
    matching,
    tile_colours,
)

SCALE = ScoreScale(-0.5, 2.0)


def tiles(scores: list[float], entered: list[bool] | None = None) -> ScoredTiles:
    """Tiles of 100 pixels in one row, from the slide's upper left corner on."""
    corners = np.array([(100.0 * place, 0.0) for place in range(len(scores))])
    inside = np.ones(len(scores), bool) if entered is None else np.array(entered)
    return ScoredTiles("slide-1", corners, 100.0, np.array(scores), inside)


def scene(own: ScoredTiles) -> HeatmapScene:
    white = np.full((200, 400, 3), 255, np.uint8)
    return HeatmapScene(own, ColourKey(SCALE, "logit"), (400, 200), 0.5, white)


def test_every_tile_lies_where_it_is_in_its_colour() -> None:
    own = tiles([-2.5, -0.5, 1.5])
    drawn = np.asarray(overlay(scene(own), Image.new("RGB", (400, 200), "white"), 1.0))
    wanted = tile_colours(own.scores, SCALE)
    for place in range(3):
        part = drawn[:100, 100 * place : 100 * (place + 1)]
        assert (part == wanted[place]).all()
    assert (drawn[100:] == 255).all()
    assert (drawn[:, 300:] == 255).all()


def test_neighbours_touch_and_do_not_overlap_at_any_size() -> None:
    own = tiles([-2.5, -0.5, 1.5, 0.0])
    for width in (37, 101, 160):
        shown = Image.new("RGB", (width, width // 2), "white")
        drawn = np.asarray(overlay(scene(own), shown, 1.0))[0]
        assert not (drawn == 255).all(axis=1).any()
        kinds = [tuple(pixel) for pixel in drawn.tolist()]
        changes = sum(left != right for left, right in pairwise(kinds))
        assert changes == 3


def test_a_tile_outside_the_score_is_smaller() -> None:
    own = tiles([1.5, 1.5], [True, False])
    drawn = np.asarray(overlay(scene(own), Image.new("RGB", (400, 200), "white"), 1.0))
    coloured = (drawn != 255).any(axis=2)
    assert coloured[:, :100].sum() == 100 * 100
    assert 50 * 50 < coloured[:, 100:].sum() < 60 * 60
    assert own.slide_score == 1.5


def test_opacity_mixes_the_grey_slide_with_the_colour() -> None:
    own = tiles([SCALE.high])
    shown = Image.new("RGB", (400, 200), (200, 100, 150))
    grey = np.asarray(shown.convert("L"))[0, 0]
    drawn = np.asarray(overlay(scene(own), shown, 0.4))
    tint = tile_colours(own.scores, SCALE)[0].astype(float)
    assert drawn[50, 50] == pytest.approx(0.4 * tint + 0.6 * grey, abs=2)
    assert (drawn[150, 50] == grey).all()


def test_colours_go_from_blue_through_pale_to_red() -> None:
    low, middle, high = colours_at(np.array([-1.0, 0.0, 1.0])).astype(int)
    assert low[2] > low[0] + 50
    assert high[0] > high[2] + 50
    assert middle.min() > 180
    along = colours_at(np.linspace(-1, 1, 201)).astype(int)
    assert (along[:90, 2] > along[:90, 0]).all()
    assert (along[100:, 0] > along[100:, 2]).all()
    lightness = along @ [0.299, 0.587, 0.114]
    assert (np.diff(lightness[:101]) > 0).all()
    assert (np.diff(lightness[100:]) < 0).all()


@given(st.floats(-1e3, 1e3), st.floats(1e-3, 1e3), st.floats(-1e4, 1e4))
def test_the_scale_is_symmetric_and_cut(centre: float, reach: float, score: float) -> None:
    scale = ScoreScale(centre, reach)
    place = scale.place(np.array([score, 2 * centre - score]))
    assert place[0] == pytest.approx(-place[1], abs=1e-6)
    assert np.abs(place).max() <= 1.0
    inside = scale.low <= score <= scale.high
    assert not inside or place[0] == pytest.approx((score - centre) / reach, abs=1e-9)


def test_the_scale_of_a_cohort_is_its_median_and_its_farther_percentile() -> None:
    scores = np.arange(1001.0)
    skewed = np.where(scores > 500, 500 + 3 * (scores - 500), scores)
    scale = ScoreScale.of([skewed[:400], skewed[400:]])
    assert scale.centre == 500.0
    assert scale.high == pytest.approx(500 + 3 * 490.0)
    assert scale.low == pytest.approx(500 - 3 * 490.0)
    assert ScoreScale.of([np.full(5, 2.0)]) == ScoreScale(2.0, 1.0)


def test_the_picture_has_both_slides_and_the_page_around_them() -> None:
    picture = draw_heatmap(scene(tiles([-2.5, 9.0])), panel_px=400)
    assert picture.mode == "RGB"
    assert picture.width >= 2 * 400
    assert picture.height > 200 + 300
    without = draw_heatmap(replace(scene(tiles([0.0])), thumbnail=None, mpp=None))
    assert without.size[0] >= 2 * 900


def test_the_words_say_what_is_shown_and_what_is_not() -> None:
    own = replace(tiles([-9.0, 0.0, 0.1], [True, True, False]), tissue_tiles=50)
    told = " ".join(reading_lines(scene(own)))
    assert "1 of 3 tiles lie beyond" in told
    assert "Small squares (1 tiles)" in told
    assert "3 of 50 tiles with tissue" in told
    plain = reading_lines(scene(tiles([0.0])))
    assert len(plain) == 1
    hidden = " ".join(reading_lines(replace(scene(tiles([0.0])), thumbnail=None, mpp=None)))
    assert re.search("stand on white.*no scale bar", hidden)


def test_numbers_carry_the_name_of_the_link() -> None:
    assert scene(tiles([0.0])).key.score_name == "log hazard odds"
    assert ColourKey(SCALE, "cloglog").score_name == "log hazard"


@given(st.floats(1e-3, 1e6))
def test_a_scale_bar_is_round_and_not_longer(longest: float) -> None:
    length = round_length(longest)
    assert length <= longest < 2.5 * length * (1 + 1e-9)
    assert f"{length:.0e}"[0] in "125"


def test_the_mean_of_tiles_must_be_the_slides_score() -> None:
    scores = np.array([1.0, 2.0, -1.0])
    check_mean("s", scores, 2 / 3 + 1e-5)
    with pytest.raises(SlideError, match="not the slide's score"):
        check_mean("s", scores, 2 / 3 + 1e-3)
    with pytest.raises(SlideError):
        check_mean("s", scores, 2 / 3 + 1e-5, "float64")
    with pytest.raises(SlideError):
        check_mean("s", scores, float("nan"))


def test_tiles_are_matched_by_their_place() -> None:
    every = np.array([(0.0, 0.0), (0.0, 64.0), (64.0, 0.0)])
    assert matching(every, every[[2, 0]]).tolist() == [True, False, True]
