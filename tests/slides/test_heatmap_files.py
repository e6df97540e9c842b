"""Tile scores for QuPath, as tables, and as a gallery of the extreme tiles."""

from __future__ import annotations

import csv
import json
from io import StringIO
from pathlib import Path

import numpy as np

from fedcox.slides.heatmap import (
    draw_gallery,
    scores_file,
    tile_geojson,
    write_tile_scores,
    write_top_tiles,
)
from fedcox.slides.tile_scores import ColourKey, ScoredTiles, ScoreScale, tile_colours

SCALE = ScoreScale(0.0, 1.0)


def example(name: str = "slide-1", count: int = 12) -> ScoredTiles:
    rng = np.random.default_rng(3)
    corners = np.array([(250.5 * (n % 4), 300.0 * (n // 4)) for n in range(count)])
    entered = np.arange(count) % 3 > 0
    return ScoredTiles(name, corners, 224.0, rng.normal(size=count), entered)


def test_geojson_has_one_closed_tile_object_for_each_tile() -> None:
    tiles = example()
    read = json.loads("".join(tile_geojson(tiles, SCALE)))
    assert read["type"] == "FeatureCollection"
    assert len(read["features"]) == 12
    for place, feature in enumerate(read["features"]):
        assert feature["type"] == "Feature"
        assert feature["properties"]["objectType"] == "tile"
        (ring,) = feature["geometry"]["coordinates"]
        assert feature["geometry"]["type"] == "Polygon"
        assert ring[0] == ring[-1] == tiles.corners[place].tolist()
        assert ring[2] == (tiles.corners[place] + 224.0).tolist()
        x, y = np.array(ring).T
        area = 0.5 * abs(np.dot(x[:-1], y[1:]) - np.dot(x[1:], y[:-1]))
        assert area == 224.0**2
        measured = feature["properties"]["measurements"]
        assert measured["tile_score"] == tiles.scores[place]
        assert measured["in_slide_score"] == tiles.entered[place]
        assert (
            feature["properties"]["color"] == tile_colours(tiles.scores, SCALE)[place].tolist()
        )


def test_the_table_gives_every_score_back_to_its_last_bit(tmp_path: Path) -> None:
    tiles = example()
    write_tile_scores(tmp_path, tiles)
    text = scores_file(tmp_path, tiles.slide_id).read_text(encoding="utf-8")
    rows = list(csv.DictReader(StringIO(text)))
    assert [*rows[0]] == ["slide", "x", "y", "score", "in_slide_score"]
    assert [float(row["score"]) for row in rows] == tiles.scores.tolist()
    assert [[float(row["x"]), float(row["y"])] for row in rows] == tiles.corners.tolist()


def test_extreme_tiles_of_all_slides_stand_in_one_table(tmp_path: Path) -> None:
    slides = [example("a"), example("b", 5)]
    for tiles in slides:
        write_tile_scores(tmp_path, tiles)
    write_top_tiles(tmp_path, ["a", "b"], 3)
    text = (tmp_path / "top_tiles.csv").read_text(encoding="utf-8")
    rows = list(csv.DictReader(StringIO(text)))
    assert [*rows[0]] == ["slide", "x", "y", "score"]
    for tiles in slides:
        found = [float(row["score"]) for row in rows if row["slide"] == tiles.slide_id]
        ordered = np.sort(tiles.scores)
        assert found == [*ordered[::-1][:3], *ordered[:3]]


def test_the_gallery_shows_the_extreme_tiles_in_order() -> None:
    tiles = example()
    asked: list[tuple[float, float]] = []

    def read_tile(x: float, y: float) -> np.ndarray[tuple[int, int, int], np.dtype[np.uint8]]:
        asked.append((x, y))
        return np.full((64, 64, 3), 7, np.uint8)

    picture = draw_gallery(
        tiles, ColourKey(SCALE, "cloglog", simulated=True), read_tile, count=4
    )
    order = np.argsort(tiles.scores)
    wanted = [*order[::-1][:4], *order[:4]]
    assert asked == [tuple(tiles.corners[place].tolist()) for place in wanted]
    pixels = np.asarray(picture)
    for place in wanted:
        frame = tile_colours(tiles.scores, SCALE)[place]
        assert (pixels == frame).all(axis=2).sum() > 4 * 7 * 150
    assert ((pixels == 7).all(axis=2).sum()) >= 8 * 140 * 140


def test_a_slide_of_few_tiles_has_a_small_gallery() -> None:
    tiles = example(count=2)
    picture = draw_gallery(
        tiles, ColourKey(SCALE, "logit"), lambda x, y: np.zeros((8, 8, 3), np.uint8)
    )
    assert picture.width >= 760
