"""The files of a slide's heatmap – picture, gallery, table, GeoJSON – made slide by slide.

The picture is written last and says what it was made from: a slide that has one made from the
same network, features and options is done. QuPath opens the GeoJSON by File › Import objects,
and colours the tiles by Measure › Measurement maps. Coordinates are pixels of the slide's
finest level.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedcox.errors import SlideError
from fedcox.files.writing import owners_folder, write_atomically, write_csv
from fedcox.reports.number_text import signed_text
from fedcox.slides.drawing import INK, SOFT, WARNING, blank, write, write_png
from fedcox.slides.feature_files import KnownSlide
from fedcox.slides.heatmap_picture import HeatmapScene, draw_heatmap
from fedcox.slides.slide import Slide, open_slide
from fedcox.slides.step import AbstractStep, Settings, SlideRow, slide_file
from fedcox.slides.tile_scores import ColourKey, ScoredTiles, ScoreScale, tile_colours

if TYPE_CHECKING:
    from PIL.Image import Image as Picture
    from PIL.ImageDraw import ImageDraw

PAGE, TOP_TILES = "heatmap.html", "top_tiles.csv"
#: Reads one tile at its corner, in pixels of the finest level: (height, width, 3).
ReadTile = Callable[[float, float], NDArray[np.uint8]]
COLUMNS = ("slide", "x", "y", "score")
_SIDE, _GAP, _FRAME, _MARGIN = 190, 18, 8, 36
#: Scores the tiles of the slide of this name; the slide's own file may say more of it.
ScoreSlide = Callable[[str, KnownSlide], ScoredTiles]

_MADE_FROM, _SUMMARY = "fedcox-made-from", "fedcox-summary"
_THUMBNAIL_PX = 1800


@dataclass(frozen=True)
class HeatmapOptions:
    """How pictures are drawn."""

    opacity: float = 0.62
    tiles: int = 8
    assume_mpp: float | None = None
    deepzoom_tile_px: int | None = None


@dataclass(frozen=True)
class SlideSummary:
    """What the page says of a slide; kept in its picture."""

    slide_id: str
    slide_score: float
    tiles: int
    entered: int
    highest: float
    lowest: float
    above: float  # the share of tiles above the cohort's median tile

    @classmethod
    def of(cls, tiles: ScoredTiles, scale: ScoreScale) -> SlideSummary:
        return cls(
            tiles.slide_id,
            tiles.slide_score,
            tiles.scores.size,
            int(tiles.entered.sum()),
            float(tiles.scores.max()),
            float(tiles.scores.min()),
            float((tiles.scores[tiles.entered] > scale.centre).mean()),
        )


@dataclass(frozen=True, eq=False)
class HeatmapStep(AbstractStep):
    """`score` gives the tiles of a slide, `digest` tells its features from all others.

    `model` is the digest of the network's file.
    """

    score: ScoreSlide
    digest: Callable[[str], str]
    key: ColourKey
    model: str
    options: HeatmapOptions

    name = "heatmap"

    def target(self, slide_id: str, work: Path) -> Path:
        return picture_file(work, slide_id)

    def settings(self, slide: SlideRow, work: Path) -> Settings:
        return {
            "model": self.model,
            "features": self.digest(slide.slide_id),
            "centre": self.key.scale.centre,
            "reach": self.key.scale.reach,
            "opacity": self.options.opacity,
            "tiles": self.options.tiles,
            "assume_mpp": self.options.assume_mpp,
            "deepzoom_tile_px": self.options.deepzoom_tile_px,
            "with_slide": int(slide.path is not None),
            "simulated": int(self.key.simulated),
        }

    def kept_settings(self, target: Path) -> Settings | None:
        settings: Settings | None = picture_words(target).get(_MADE_FROM)
        folder, name = target.parent.parent, target.stem
        others = [geojson_file(folder, name), scores_file(folder, name)]
        if settings is not None and settings.get("with_slide"):
            others.append(gallery_file(folder, name))
        return settings if all(path.exists() for path in others) else None

    def make(self, slide: SlideRow, work: Path, tick: Callable[[int], None]) -> int:
        name, opened, known = slide.slide_id, None, KnownSlide()
        with ExitStack() as stack:
            if slide.path is not None:
                file = slide_file(slide)
                opened = stack.enter_context(open_slide(file, self.options.assume_mpp))
                known = KnownSlide(opened.mpp, opened.size, self.options.deepzoom_tile_px)
            tiles = self.score(name, known)
            size, mpp, thumbnail = _extent(tiles), known.mpp, None
            if opened is not None:
                size, thumbnail = opened.size, opened.thumbnail(_THUMBNAIL_PX)
            scene = HeatmapScene(tiles, self.key, size, mpp, thumbnail)
            geojson = geojson_file(work, name)
            owners_folder(geojson.parent)
            write_atomically(geojson, tile_geojson(tiles, self.key.scale))
            write_tile_scores(work, tiles)
            if opened is not None:
                self._gallery(tiles, opened, gallery_file(work, name))
            words = {
                _MADE_FROM: json.dumps(dict(self.settings(slide, work))),
                _SUMMARY: json.dumps(vars(SlideSummary.of(tiles, self.key.scale))),
            }
            picture = draw_heatmap(scene, opacity=self.options.opacity)
            write_png(picture_file(work, name), picture, words)
        return int(tiles.scores.size)

    def _gallery(self, tiles: ScoredTiles, slide: Slide, path: Path) -> None:
        pixels = max(16, min(256, round(tiles.side)))

        def read_tile(x: float, y: float) -> np.ndarray[Any, np.dtype[np.uint8]]:
            mpp = slide.mpp * tiles.side / pixels
            return slide.read_tile(round(x), round(y), pixels, mpp)

        write_png(path, draw_gallery(tiles, self.key, read_tile, count=self.options.tiles))


def _extent(tiles: ScoredTiles) -> tuple[int, int]:
    """So much of the slide as the tiles reach, where its own size is not known."""
    width, height = (tiles.corners.max(axis=0) + tiles.side).tolist()
    return max(1, round(width)), max(1, round(height))


def picture_words(path: Path) -> dict[str, Any]:
    """The JSON that a finished picture carries; nothing where it does not open."""
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(path) as picture:
            picture.load()
            text: dict[str, str] = dict(getattr(picture, "text", {}))
        return {name: json.loads(text[name]) for name in (_MADE_FROM, _SUMMARY) if name in text}
    except (OSError, UnidentifiedImageError, ValueError):
        return {}


def summary_in(path: Path) -> SlideSummary:
    """What a finished picture says of its slide."""
    summary = picture_words(path).get(_SUMMARY)
    if summary is None:
        raise SlideError(f"{path} is not a heatmap of fedcox.", ["Run the command again."])
    return SlideSummary(**summary)


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
    left, top, right, bottom = (
        # Whole pixels without a decimal point.
        int(value) if float(value).is_integer() else round(value, 3)
        for value in (x, y, x + side, y + side)
    )
    return [[left, top], [right, top], [right, bottom], [left, bottom], [left, top]]


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
