"""Tile scores as QuPath reads them: one tile object each, with its score as a measurement.

QuPath opens the file by File › Import objects, and colours the tiles by Measure › Measurement
maps. Coordinates are pixels of the slide's finest level.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from fedcox.slides.heatmap.colours import tile_colours
from fedcox.slides.tile_scores import ScoredTiles, ScoreScale


def tile_geojson(tiles: ScoredTiles, scale: ScoreScale) -> Iterator[str]:
    """The file in pieces: a collection of one feature per tile, a line each."""
    colours = tile_colours(tiles.scores, scale).tolist()
    yield '{"type":"FeatureCollection","features":[\n'
    for number, (corner, score, entered, colour) in enumerate(
        zip(
            tiles.corners.tolist(),
            tiles.scores.tolist(),
            tiles.entered.tolist(),
            colours,
            strict=True,
        )
    ):
        feature = {
            "type": "Feature",
            "geometry": {
                "type": "Polygon",
                "coordinates": [_ring(corner[0], corner[1], tiles.side)],
            },
            "properties": {
                "objectType": "tile",
                "color": colour,
                "measurements": {"tile_score": score, "in_slide_score": int(entered)},
            },
        }
        yield (",\n" if number else "") + json.dumps(feature, separators=(",", ":"))
    yield "\n]}\n"


def _ring(x: float, y: float, side: float) -> list[list[float]]:
    """The tile's outline, closed, its first corner the upper left one."""
    left, top, right, bottom = map(_plain, (x, y, x + side, y + side))
    return [[left, top], [right, top], [right, bottom], [left, bottom], [left, top]]


def _plain(value: float) -> float:
    """Whole pixels without a decimal point."""
    return int(value) if float(value).is_integer() else round(value, 3)
