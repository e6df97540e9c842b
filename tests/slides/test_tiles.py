"""Tiles against counting pixels one by one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from fedcox.slides.tiling import draw_tiles, tile_grid
from fedcox.slides.tissue import Region

pictures = arrays(bool, st.tuples(st.integers(1, 8), st.integers(1, 8)), elements=st.booleans())


@settings(deadline=None, max_examples=100)
@given(
    pictures,
    st.integers(1, 7),
    st.lists(st.tuples(st.integers(-5, 60), st.integers(-5, 60)), min_size=1, max_size=5),
    st.integers(1, 30),
)
def test_the_share_of_a_square_is_what_counting_gives(
    pixels: NDArray[np.bool_], fold: int, places: list[tuple[int, int]], side: int
) -> None:
    corners = np.array(places, np.int32)
    full = np.zeros((120, 120), bool)
    large = np.kron(pixels, np.ones((fold, fold), bool))
    full[20 : 20 + large.shape[0], 20 : 20 + large.shape[1]] = large
    counted = [
        full[20 + y : 20 + y + side, 20 + x : 20 + x + side].sum() / side**2 for x, y in places
    ]
    share = Region(pixels, float(fold)).share(corners, float(side))
    np.testing.assert_allclose(share, counted, atol=1e-12)


def test_a_grid_in_micrometres_has_the_same_tiles_at_every_resolution() -> None:
    pixels = np.zeros((64, 64), bool)
    pixels[8:40, 16:56] = True
    fine = tile_grid((2048, 2048), 0.25, 64.0, Region(pixels, 32.0), 0.5)
    coarse = tile_grid((512, 512), 1.0, 64.0, Region(pixels, 8.0), 0.5)
    np.testing.assert_array_equal(fine, 4 * coarse)
    # 64 µm are 8 pixels of the mask: rows 8 to 40, columns 16 to 56.
    assert len(coarse) == 4 * 5
    assert coarse.dtype == np.int32
    assert coarse.tolist()[:2] == [[128, 64], [192, 64]]


def test_tiles_do_not_overlap_and_stay_on_the_slide() -> None:
    everywhere = Region(np.ones((130, 130), bool), 8.0)
    side = 112 / 0.4963
    corners = tile_grid((1000, 700), 0.4963, 112.0, everywhere, 1.0)
    assert len(corners) == int(1000 / side) * int(700 / side)
    assert (corners + side <= [1000.5, 700.5]).all()
    gaps = np.diff(np.unique(corners[:, 0]).astype(float))
    assert (np.abs(gaps - side) < 1).all()


@pytest.mark.parametrize(("least", "tiles"), [(0.0, 16), (0.25, 1), (0.26, 0)])
def test_a_share_that_equals_the_limit_is_enough(least: float, tiles: int) -> None:
    pixels = np.zeros((8, 8), bool)
    pixels[0, 0] = True  # a quarter of the first tile
    assert len(tile_grid((64, 64), 1.0, 16.0, Region(pixels, 8.0), least)) == tiles


def test_a_draw_follows_from_the_seed_and_the_slide() -> None:
    coords = np.arange(200, dtype=np.int32).reshape(100, 2)
    drawn = draw_tiles(coords, 30, 7, "slide-1")
    np.testing.assert_array_equal(drawn, draw_tiles(coords, 30, 7, "slide-1"))
    assert len(np.unique(drawn[:, 0])) == 30
    assert (np.diff(drawn[:, 0]) > 0).all()
    assert not np.array_equal(drawn, draw_tiles(coords, 30, 8, "slide-1"))
    assert not np.array_equal(drawn, draw_tiles(coords, 30, 7, "slide-2"))
    assert draw_tiles(coords, 100, 7, "slide-1") is coords


def test_every_tile_is_drawn_equally_often() -> None:
    coords = np.arange(20, dtype=np.int32).reshape(10, 2)
    drawn = np.concatenate(
        [draw_tiles(coords, 3, seed, "s")[:, 0] // 2 for seed in range(2000)]
    )
    counts = np.bincount(drawn, minlength=10)
    # 600 each expected, standard deviation 20.5.
    assert np.abs(counts - 600).max() < 5 * 20.5
