"""The files of a heatmap run, one folder for each kind: tables, galleries, tiles for QuPath.

QuPath opens the GeoJSON by File › Import objects, and colours the tiles by Measure ›
Measurement maps. Coordinates are pixels of the slide's finest level.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fedcox.files.writing import write_csv
from fedcox.reports.number_text import signed_text
from fedcox.slides.drawing import INK, SOFT, WARNING, blank, write
from fedcox.slides.tile_scores import (
    ColourKey,
    ScoredTiles,
    ScoreScale,
    tile_colours,
)

if TYPE_CHECKING:
    from PIL.Image import Image as Picture
    from PIL.ImageDraw import ImageDraw


PAGE, TOP_TILES = "heatmap.html", "top_tiles.csv"
#: Reads one tile at its corner, in pixels of the finest level: (height, width, 3).
ReadTile = Callable[[float, float], NDArray[np.uint8]]
COLUMNS = ("slide", "x", "y", "score")
_SIDE, _GAP, _FRAME, _MARGIN = 190, 18, 8, 36


def picture_file(folder: Path, slide_id: str) -> Path:
    """The slide beside its map."""
    return folder / "heatmaps" / f"{slide_id}.png"


def gallery_file(folder: Path, slide_id: str) -> Path:
    """Its highest and lowest tiles; not there where the slide's own file is not."""
    return folder / "tiles" / f"{slide_id}.png"


def geojson_file(folder: Path, slide_id: str) -> Path:
    """Its tiles for QuPath."""
    return folder / "qupath" / f"{slide_id}.geojson"


def scores_file(folder: Path, slide_id: str) -> Path:
    """Its tiles as a table."""
    return folder / "scores" / f"{slide_id}.csv"


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
    left, top, right, bottom = map(_whole, (x, y, x + side, y + side))
    return [[left, top], [right, top], [right, bottom], [left, bottom], [left, top]]


def _whole(value: float) -> float:
    """Whole pixels without a decimal point."""
    return int(value) if float(value).is_integer() else round(value, 3)


def draw_gallery(
    tiles: ScoredTiles,
    key: ColourKey,
    read_tile: ReadTile,
    *,
    count: int = 8,
) -> Picture:
    """Two rows of tiles: the highest scores, the lowest ones; each in the frame of its colour.

    Below a tile stand its score and its corner, as in the table of tiles.
    """
    from PIL import ImageDraw

    rows = [
        ("Highest tile scores", tiles.first(count, highest=True)),
        ("Lowest tile scores", tiles.first(count, highest=False)),
    ]
    shown = max(len(places) for _, places in rows)
    cell = _SIDE + 2 * _FRAME
    width = 2 * _MARGIN + shown * cell + (shown - 1) * _GAP
    tall = 42 + cell + 66
    sheet = blank(max(width, 760), 112 + len(rows) * (tall + 14) + 14)
    draw = ImageDraw.Draw(sheet)
    _title(draw, tiles.slide_id, key)
    top = 112
    for words, places in rows:
        write(draw, (_MARGIN, top), words, size=26)
        for column, place in enumerate(places):
            at = _MARGIN + column * (cell + _GAP), top + 42
            _tile(sheet, draw, at, tiles, place, key.scale, read_tile)
        top += tall + 14
    return sheet


def _title(draw: ImageDraw, slide_id: str, key: ColourKey) -> None:
    name = slide_id + ("  –  SIMULATED SLIDE" if key.simulated else "")
    fill = WARNING if key.simulated else INK
    write(draw, (_MARGIN, 18), name, size=34, fill=fill)
    words = f"Tile scores in {key.score_name}, higher is worse; x, y in level-0 pixels"
    write(draw, (_MARGIN, 64), words, size=24, fill=SOFT)


def _tile(
    sheet: Picture,
    draw: ImageDraw,
    at: tuple[int, int],
    tiles: ScoredTiles,
    place: int,
    scale: ScoreScale,
    read_tile: ReadTile,
) -> None:
    from PIL import Image

    left, top = at
    tint = tuple(tile_colours(tiles.scores[[place]], scale)[0].tolist())
    side = _SIDE + 2 * _FRAME
    draw.rectangle((left, top, left + side - 1, top + side - 1), fill=tint)
    x, y = tiles.corners[place].tolist()
    picture = Image.fromarray(read_tile(x, y)).resize((_SIDE, _SIDE), Image.Resampling.LANCZOS)
    sheet.paste(picture, (left + _FRAME, top + _FRAME))
    score = signed_text(float(tiles.scores[place]))
    write(draw, (left, top + side + 4), score, size=24)
    write(draw, (left, top + side + 34), f"{x:.0f}, {y:.0f}", size=20, fill=SOFT)


def write_tile_scores(folder: Path, tiles: ScoredTiles) -> None:
    """CSV of every tile: slide, x, y, score, and whether it entered the slide's score."""
    rows = [
        (tiles.slide_id, _pixel_text(x), _pixel_text(y), repr(score), int(entered))
        for (x, y), score, entered in zip(
            tiles.corners.tolist(), tiles.scores.tolist(), tiles.entered.tolist(), strict=True
        )
    ]
    header = (*COLUMNS, "in_slide_score")
    write_csv(scores_file(folder, tiles.slide_id), [header, *rows])


def write_top_tiles(folder: Path, slides: Iterable[str], count: int) -> None:
    """top_tiles.csv: each slide's highest tiles, then its lowest, in the gallery's order."""
    rows = []
    for slide_id in slides:
        with scores_file(folder, slide_id).open(encoding="utf-8", newline="") as file:
            tiles = [tuple(row[name] for name in COLUMNS) for row in csv.DictReader(file)]
        scores = np.array([float(tile[3]) for tile in tiles])
        for order in (np.argsort(-scores, kind="stable"), np.argsort(scores, kind="stable")):
            rows += [tiles[place] for place in order[:count]]
    write_csv(folder / TOP_TILES, [COLUMNS, *rows])


def _pixel_text(value: float) -> str:
    return f"{value:.0f}" if value.is_integer() else f"{value:.3f}"
