"""The files of a slide's heatmap – picture, gallery, table, GeoJSON – made slide by slide.

The picture is written last and says what it was made from: a slide that has one made from the
same network, features and options is done.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedcox.errors import SlideError
from fedcox.files.writing import owners_folder, write_atomically
from fedcox.slides.drawing import write_png
from fedcox.slides.feature_files import KnownSlide
from fedcox.slides.heatmap_files import (
    draw_gallery,
    gallery_file,
    geojson_file,
    picture_file,
    scores_file,
    tile_geojson,
    write_tile_scores,
)
from fedcox.slides.heatmap_picture import HeatmapScene, draw_heatmap
from fedcox.slides.slide import Slide, open_slide
from fedcox.slides.step import AbstractStep, Settings, SlideRow, slide_file
from fedcox.slides.tile_scores import ColourKey, ScoredTiles, ScoreScale

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
            scene = self._scene(tiles, opened)
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

    def _scene(self, tiles: ScoredTiles, slide: Slide | None) -> HeatmapScene:
        size, mpp, thumbnail = _extent(tiles), None, None
        if slide is not None:
            size, mpp = slide.size, slide.mpp
            thumbnail = slide.thumbnail(_THUMBNAIL_PX)
        return HeatmapScene(tiles, self.key, size, mpp, thumbnail)

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
