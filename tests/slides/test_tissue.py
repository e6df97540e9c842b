"""Tissue against the mask that was drawn, Otsu against its definition."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedcox.slides.slide import open_slide
from fedcox.slides.tissue import (
    OtsuTissue,
    otsu_threshold,
    saturation,
    without_specks_and_holes,
)
from tests.slides.drawn import drawn_slide, intersection_over_union


@pytest.mark.parametrize(("seed", "mpp"), [(0, 1.0), (1, 1.0), (2, 0.5)])
def test_otsu_finds_the_tissue_that_was_drawn(tmp_path: Path, seed: int, mpp: float) -> None:
    file = tmp_path / "slide.tiff"
    drawn = drawn_slide(file, seed=seed, mpp=mpp)
    with open_slide(file) as slide:
        found = OtsuTissue().find(slide.overview(8.0))
    fold = round(8.0 / mpp)
    clean = without_specks_and_holes(found, 8.0, 20_000.0, 20_000.0)
    enlarged = np.kron(clean, np.ones((fold, fold), bool))[:1024, :1024]
    assert intersection_over_union(enlarged, drawn.tissue.pixels) > 0.9


def test_glass_has_no_tissue_and_neither_has_the_scanners_black_border() -> None:
    rng = np.random.default_rng(0)
    glass = (243 + rng.integers(-3, 4, (200, 200, 3))).astype(np.uint8)
    glass[:, :60] = rng.integers(0, 8, (200, 60, 3))
    assert not OtsuTissue().find(glass).any()
    assert not OtsuTissue().find(np.full((20, 20, 3), 255, np.uint8)).any()


def test_saturation_is_that_of_hsv() -> None:
    import colorsys

    rgb = np.random.default_rng(1).integers(30, 256, (10, 10, 3), dtype=np.uint8)
    expected = [
        [int(255 * colorsys.rgb_to_hsv(*(pixel / 255))[1] + 1e-9) for pixel in row]
        for row in rgb
    ]
    np.testing.assert_array_equal(saturation(rgb), expected)


@settings(max_examples=50)
@given(st.lists(st.integers(0, 255), min_size=2, max_size=60))
def test_otsus_threshold_leaves_the_least_variance_within(values: list[int]) -> None:
    array = np.array(values, np.uint8)
    if len(set(values)) == 1:
        assert not (array > otsu_threshold(array)).any()
        return

    def within(threshold: int) -> float:
        low, high = array[array <= threshold], array[array > threshold]
        return float(len(low) * low.var() + len(high) * high.var())

    best = min(within(level) for level in range(array.min(), array.max()))
    assert within(otsu_threshold(array)) == pytest.approx(best, abs=1e-6)


def test_specks_go_and_holes_are_filled_by_their_area_in_micrometres() -> None:
    mask = np.zeros((40, 40), bool)
    mask[5:25, 5:25] = True
    mask[10:13, 10:13] = False  # a hole of 9 pixels, 144 µm² at 4 µm
    mask[16:21, 16:21] = False  # a hole of 25 pixels
    mask[30:33, 30:33] = True  # a speck of 9 pixels
    mask[30:35, 5:10] = True  # a piece of 25
    clean = without_specks_and_holes(mask, 4.0, speck_um2=160.0, hole_um2=160.0)
    assert clean[11, 11]
    assert not clean[18, 18]
    assert not clean[31, 31]
    assert clean[32, 7]
    unchanged = without_specks_and_holes(mask, 40.0, speck_um2=160.0, hole_um2=160.0)
    np.testing.assert_array_equal(unchanged, mask)


def test_glass_at_the_edge_is_no_hole() -> None:
    mask = np.ones((20, 20), bool)
    mask[:2, :2] = False
    clean = without_specks_and_holes(mask, 1.0, speck_um2=0.0, hole_um2=100.0)
    assert not clean[0, 0]


def test_nothing_stays_nothing() -> None:
    empty: NDArray[np.bool_] = np.zeros((5, 5), bool)
    assert not without_specks_and_holes(empty, 8.0, 1e6, 0.0).any()
