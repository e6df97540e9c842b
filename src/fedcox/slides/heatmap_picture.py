"""Where on the slide does the risk come from? Tile scores drawn over the slide's thumbnail.

Beside the slide as it is stands its grey copy under the tiles' colours, which are centred on
the training cohort's median tile and end at limits that are the same for every slide: a slide
that is low in risk as a whole looks so. Below them is how the tiles of this slide score.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fedcox.reports.number_text import count_text, signed_text
from fedcox.slides.drawing import (
    INK,
    LINE,
    SOFT,
    WARNING,
    Box,
    blank,
    length,
    paragraph,
    scale_bar,
    write,
)
from fedcox.slides.tile_scores import (
    ColourKey,
    ScoredTiles,
    colours_at,
    tile_colours,
)

if TYPE_CHECKING:
    from PIL.Image import Image as Picture
    from PIL.ImageDraw import ImageDraw


_MARGIN, _GUTTER = 36, 24
_HEAD, _NARROWEST = 138, 1500
#: More room than the foot needs; what is not used is cut off.
_FOOT = 900
#: Sizes of letters: a page shows the picture at half its width.
_TITLE, _TEXT, _SMALL = 40, 28, 26
#: Of its side, a tile that did not enter the slide's score is drawn this wide.
_SMALLER = 0.55


@dataclass(frozen=True, eq=False)
class HeatmapScene:
    """What one picture shows.

    `thumbnail` is (height, width, 3), or None where only features are there; `size` is the
    slide's width and height in pixels of its finest level and `mpp` micrometres per such
    pixel.
    """

    tiles: ScoredTiles
    key: ColourKey
    size: tuple[int, int]
    mpp: float | None
    thumbnail: NDArray[np.uint8] | None


def draw_heatmap(scene: HeatmapScene, *, opacity: float = 0.62, panel_px: int = 900) -> Picture:
    """The slide, its map, the scale of colours and how to read it, as one picture."""
    from PIL import ImageDraw

    shown = _fitted(scene, panel_px)
    width = 2 * shown.width + 2 * _MARGIN + _GUTTER
    sheet = blank(max(width, _NARROWEST), shown.height + _HEAD + _FOOT)
    draw = ImageDraw.Draw(sheet)
    left = (sheet.width - width) // 2 + _MARGIN
    plain = Box(left, _HEAD, shown.width, shown.height)
    mapped = Box(left + shown.width + _GUTTER, _HEAD, shown.width, shown.height)
    sheet.paste(shown, (plain.left, plain.top))
    sheet.paste(overlay(scene, shown, opacity), (mapped.left, mapped.top))
    for panel in (plain, mapped):
        draw.rectangle((panel.left - 1, panel.top - 1, panel.right, panel.bottom), outline=LINE)
        if scene.mpp is not None:
            scale_bar(draw, panel, scene.mpp * scene.size[0] / shown.width)
    foot = Box(_MARGIN, mapped.bottom + 22, sheet.width - 2 * _MARGIN, _FOOT - 22)
    _head(draw, scene, Box(_MARGIN, 20, sheet.width - 2 * _MARGIN, _HEAD - 20))
    end = _foot(draw, scene, foot)
    return sheet.crop((0, 0, sheet.width, end + 20))


def _fitted(scene: HeatmapScene, panel_px: int) -> Picture:
    """The thumbnail at the panel's size, or white where there is none."""
    from PIL import Image

    scale = panel_px / max(scene.size)
    width, height = (max(1, round(length * scale)) for length in scene.size)
    if scene.thumbnail is None:
        return blank(width, height)
    return Image.fromarray(scene.thumbnail).resize((width, height), Image.Resampling.LANCZOS)


def overlay(scene: HeatmapScene, shown: Picture, opacity: float) -> Picture:
    """The grey slide under squares of the tiles' colours."""
    from PIL import Image, ImageDraw

    grey = shown.convert("L").convert("RGB")
    colours = Image.new("RGB", shown.size)
    mask = Image.new("L", shown.size, 0)
    paint, cover = ImageDraw.Draw(colours), ImageDraw.Draw(mask)
    strength = round(255 * opacity)
    tints = tile_colours(scene.tiles.scores, scene.key.scale).tolist()
    for edges, tint in zip(_squares(scene, shown.width / scene.size[0]), tints, strict=True):
        paint.rectangle(edges, fill=tuple(tint))
        cover.rectangle(edges, fill=strength)
    return Image.composite(colours, grey, mask)


def _squares(scene: HeatmapScene, shrink: float) -> list[tuple[int, int, int, int]]:
    """First and last pixel of every tile; neighbours touch and do not overlap."""
    tiles = scene.tiles
    inset = np.where(tiles.entered, 0.0, tiles.side * (1 - _SMALLER) / 2)[:, None]
    first = np.rint((tiles.corners + inset) * shrink)
    last = np.maximum(np.rint((tiles.corners + tiles.side - inset) * shrink) - 1, first)
    return [
        (int(left), int(top), int(right), int(bottom))
        for (left, top), (right, bottom) in zip(first, last, strict=True)
    ]


def _head(draw: ImageDraw, scene: HeatmapScene, box: Box) -> None:
    tiles = scene.tiles
    name = scene.tiles.slide_id + ("  –  SIMULATED SLIDE" if scene.key.simulated else "")
    fill = WARNING if scene.key.simulated else INK
    write(draw, (box.left, box.top), name, size=_TITLE, fill=fill)
    entered = int(tiles.entered.sum())
    words = (
        f"Slide score {signed_text(tiles.slide_score)} {scene.key.score_name}: the mean of "
        f"{count_text(entered)} tiles. Median tile of {scene.key.whose}: "
        f"{signed_text(scene.key.scale.centre)}. Higher is worse."
    )
    paragraph(draw, (box.left, box.top + 60), words, size=_TEXT, width=box.width, fill=SOFT)


def _foot(draw: ImageDraw, scene: HeatmapScene, box: Box) -> int:
    """Left: how the tiles score, over the colours. Right: how to read the picture.

    The answer is where it ends.
    """
    wide = min(box.width // 2 - 20, 760)
    _histogram(draw, scene, Box(box.left, box.top, wide, 120))
    bar = Box(box.left, box.top + 122, wide, 30)
    _colour_bar(draw, scene, bar)
    left = box.left + wide + 44
    top = box.top
    for line in reading_lines(scene):
        top = 7 + paragraph(
            draw, (left, top), line, size=_SMALL, width=box.right - left, fill=SOFT
        )
    return max(top, bar.bottom + 84)


def _histogram(draw: ImageDraw, scene: HeatmapScene, box: Box) -> None:
    bins = 48
    place = scene.key.scale.place(scene.tiles.scores)
    counts, _ = np.histogram(place, bins=bins, range=(-1.0, 1.0))
    tints = colours_at(np.linspace(-1, 1, bins)).tolist()
    edges = np.rint(np.linspace(box.left, box.right, bins + 1)).astype(int).tolist()
    for number, count in enumerate(counts.tolist()):
        if count:
            tall = max(2, round(box.height * count / counts.max()))
            corners = edges[number], box.bottom - tall, edges[number + 1] - 2, box.bottom
            draw.rectangle(corners, fill=tuple(tints[number]), outline=SOFT)


def _colour_bar(draw: ImageDraw, scene: HeatmapScene, bar: Box) -> None:
    tints = colours_at(np.linspace(-1, 1, bar.width)).tolist()
    for step, tint in enumerate(tints):
        x = bar.left + step
        draw.line((x, bar.top, x, bar.bottom), fill=tuple(tint))
    draw.rectangle((bar.left, bar.top, bar.right, bar.bottom), outline=SOFT)
    scale = scene.key.scale
    for value in np.linspace(scale.low, scale.high, 5).tolist():
        x = bar.left + round(bar.width * (value - scale.low) / (2 * scale.reach))
        draw.line((x, bar.bottom, x, bar.bottom + 7), fill=INK, width=2)
        text = signed_text(value, _decimals(scale.reach))
        half = round(length(draw, text, _SMALL) / 2)
        place = min(max(x - half, bar.left), bar.right - 2 * half)
        write(draw, (place, bar.bottom + 9), text, size=_SMALL)
    words = f"tile score ({scene.key.score_name}); bars: tiles of this slide"
    write(draw, (bar.left, bar.bottom + 46), words, size=_SMALL, fill=SOFT)


def _decimals(reach: float) -> int:
    """So many that the ticks of the colour bar can be told apart."""
    return int(np.clip(1 - np.floor(np.log10(reach)), 1, 6))


def reading_lines(scene: HeatmapScene) -> list[str]:
    """How to read the picture, in whole sentences."""
    tiles, scale = scene.tiles, scene.key.scale
    lines = [
        f"Red speaks for a higher risk than the median tile of {scene.key.whose}, blue for a "
        "lower one. Centre and limits are the same for every slide."
    ]
    beyond = int((np.abs(tiles.scores - scale.centre) > scale.reach).sum())
    if beyond:
        lines.append(
            f"{count_text(beyond)} of {count_text(tiles.scores.size)} tiles lie beyond the "
            "limits and have the colour of the end."
        )
    outside = int((~tiles.entered).sum())
    if outside:
        lines.append(
            f"Small squares ({count_text(outside)} tiles) are scored, but are not in the "
            "slide's score."
        )
    scored = tiles.scores.size
    if tiles.tissue_tiles is not None and tiles.tissue_tiles > scored:
        lines.append(
            f"{count_text(scored)} of {count_text(tiles.tissue_tiles)} tiles with tissue were "
            "drawn at random and scored; tissue without a colour was not."
        )
    if scene.thumbnail is None:
        lines.append("The slide's own file is not there, so tiles stand on white.")
    if scene.mpp is None:
        lines.append("The slide's resolution is not known, so there is no scale bar.")
    return lines
