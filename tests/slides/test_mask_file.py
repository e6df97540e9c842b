"""Polygons of a mask, drawn back, are the mask."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray
from scipy import ndimage

from fedcox.slides.mask_file import (
    Ring,
    SlideTissue,
    polygons,
    read_mask,
    write_mask,
    write_outlines,
)
from fedcox.slides.tissue import Region

masks = arrays(bool, st.tuples(st.integers(1, 9), st.integers(1, 9)), elements=st.booleans())


def signed_area(ring: Ring) -> float:
    x, y = np.array(ring, float).T
    return float((x[:-1] * y[1:] - x[1:] * y[:-1]).sum() / 2)


def inside(ring: Ring, shape: tuple[int, int]) -> NDArray[np.bool_]:
    """Centres of pixels inside a ring, by the even-odd rule along each row."""
    found = np.zeros(shape, bool)
    for (x, y), (next_x, next_y) in pairwise(ring):
        if x == next_x:
            found[min(y, next_y) : max(y, next_y), x:] ^= True
    return found


@settings(max_examples=200)
@given(masks)
def test_polygons_drawn_back_are_the_mask(mask: NDArray[np.bool_]) -> None:
    drawn = np.zeros(mask.shape, int)
    found = polygons(mask)
    for outer, *holes in found:
        assert signed_area(outer) > 0
        piece = inside(outer, mask.shape)
        for hole in holes:
            assert signed_area(hole) < 0
            gap = inside(hole, mask.shape)
            assert not (gap & ~piece).any()
            piece &= ~gap
        drawn += piece
    np.testing.assert_array_equal(drawn, mask.astype(int))
    assert len(found) == ndimage.label(mask)[1]


@settings(max_examples=200)
@given(masks)
def test_rings_are_closed_and_visit_a_corner_once(mask: NDArray[np.bool_]) -> None:
    for polygon in polygons(mask):
        for ring in polygon:
            assert ring[0] == ring[-1]
            assert len(set(ring)) == len(ring) - 1 >= 4
            steps = np.diff(np.array(ring), axis=0)
            assert ((steps == 0).sum(1) == 1).all()  # along the lattice
            assert (steps[1:] * steps[:-1]).sum() == 0  # and every corner is one


def test_geojson_is_what_qupath_imports(tmp_path: Path) -> None:
    pixels = np.zeros((6, 7), bool)
    pixels[1:5, 1:7] = True
    pixels[2:4, 3:5] = False
    tissue = SlideTissue(Region(pixels, 16.0), (110, 90), 0.5)
    write_outlines(tmp_path / "a.geojson", tissue)
    collection = json.loads((tmp_path / "a.geojson").read_text())
    assert collection["type"] == "FeatureCollection"
    (feature,) = collection["features"]
    assert feature["type"] == "Feature"
    assert feature["properties"]["objectType"] == "annotation"
    assert feature["properties"]["classification"]["name"] == "Tissue"
    assert feature["geometry"]["type"] == "Polygon"
    outer, hole = feature["geometry"]["coordinates"]
    # The last column of the mask reaches from 96 to 112; the slide ends at 110.
    assert outer == [[16, 16], [110, 16], [110, 80], [16, 80], [16, 16]]
    assert abs(signed_area([tuple(point) for point in hole])) == 4 * 16**2


def test_a_mask_comes_back_whole_and_is_the_same_bytes_again(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).random((33, 21)) > 0.5
    tissue = SlideTissue(Region(pixels, 16.0 / 3), (111, 175), 0.4963)
    write_mask(tmp_path / "a.png", tissue, {"method": "otsu", "mask_mpp": 8.0})
    back, kept = read_mask(tmp_path / "a.png")
    np.testing.assert_array_equal(back.region.pixels, pixels)
    assert (back.region.downsample, back.size, back.mpp) == (16.0 / 3, (111, 175), 0.4963)
    assert kept == {"method": "otsu", "mask_mpp": 8.0}
    assert back.digest == tissue.digest
    write_mask(tmp_path / "b.png", back, kept)
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_the_digest_follows_the_tissue_and_not_the_settings(tmp_path: Path) -> None:
    pixels = np.eye(8, dtype=bool)
    tissue = SlideTissue(Region(pixels, 8.0), (64, 64), 1.0)
    assert tissue.digest != SlideTissue(Region(~pixels, 8.0), (64, 64), 1.0).digest
    assert tissue.digest != SlideTissue(Region(pixels, 8.0), (64, 64), 1.1).digest
    assert tissue.mm2 == pytest.approx(8 * 64e-6)
