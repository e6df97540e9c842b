"""How a slide's tissue lies on the disk: a PNG for programs, GeoJSON for QuPath.

The PNG is white where tissue is, and tells in its text what the slide's level 0 was like, so
that tiles can be laid without the slide.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from fedcox.errors import SlideError, from_extra
from fedcox.files.writing import whole_file
from fedcox.slides.step import Settings
from fedcox.slides.tissue import Region

SCHEMA = "fedcox-mask-1"
#: What a damaged picture raises, by where the damage is; beside pillow's own errors.
DAMAGED_PICTURE = (OSError, ValueError, SyntaxError, EOFError, struct.error, zlib.error)
Ring: TypeAlias = list[tuple[int, int]]
"""Corners (x, y) in pixels of the mask, closed: the last is the first."""
# East along a pixel's top, south along its right side, west, north.
_STEPS = np.array([[1, 0], [0, 1], [-1, 0], [0, -1]])


@dataclass(frozen=True, eq=False)
class SlideTissue:
    """The tissue of a slide with `size` (width, height) and `mpp` at level 0."""

    region: Region
    size: tuple[int, int]
    mpp: float

    @property
    def digest(self) -> str:
        """Of what the tiles depend on, and of nothing else."""
        pixels = self.region.pixels
        about = [*pixels.shape, self.region.downsample, *self.size, self.mpp]
        return sha256(json.dumps(about).encode() + np.packbits(pixels).tobytes()).hexdigest()

    @property
    def mm2(self) -> float:
        """Area in square millimetres."""
        side = self.region.downsample * self.mpp / 1000
        return float(self.region.pixels.sum()) * side**2


def write_mask(path: Path, tissue: SlideTissue, settings: Settings) -> None:
    """The PNG; the same content gives the same bytes."""
    with from_extra("pillow", "slides"):
        from PIL import Image, PngImagePlugin

    text = PngImagePlugin.PngInfo()
    text.add_text("downsample", repr(tissue.region.downsample))
    text.add_text("mpp", repr(tissue.mpp))
    text.add_text("size", f"{tissue.size[0]} {tissue.size[1]}")
    text.add_text(SCHEMA, json.dumps(dict(settings), sort_keys=True))
    image = Image.fromarray(np.where(tissue.region.pixels, 255, 0).astype(np.uint8))
    with whole_file(path) as part:
        image.save(part, "PNG", pnginfo=text)


def read_mask(path: Path) -> tuple[SlideTissue, Settings]:
    """What `write_mask` wrote, and its settings; SlideError where it is something else."""
    with from_extra("pillow", "slides"):
        from PIL import Image

    try:
        with Image.open(path) as image:
            text: Mapping[str, str] = getattr(image, "text", {})
            settings = dict(json.loads(text[SCHEMA]))
            pixels = np.asarray(image.convert("L")) > 127
        width, height = (int(side) for side in text["size"].split())
        region = Region(pixels, float(text["downsample"]))
        return SlideTissue(region, (width, height), float(text["mpp"])), settings
    except FileNotFoundError as error:
        raise SlideError(
            f"There is no mask {path.name}.", ["Find tissue first: fedcox slides segment"]
        ) from error
    except (*DAMAGED_PICTURE, Image.DecompressionBombError, KeyError, TypeError) as error:
        raise SlideError(
            f"{path.name} is not a mask of this package, or is damaged.",
            ["Delete it, and run again: fedcox slides segment"],
        ) from error


def mask_settings(path: Path) -> Settings | None:
    """The settings alone, without the pixels; None where no mask of ours is there."""
    with from_extra("pillow", "slides"):
        from PIL import Image

    try:
        with Image.open(path) as image:
            settings: Settings = json.loads(image.info[SCHEMA])
    except (*DAMAGED_PICTURE, Image.DecompressionBombError, KeyError, TypeError):
        return None
    return settings


def write_outlines(path: Path, tissue: SlideTissue) -> None:
    """GeoJSON of annotations: polygons in level-0 pixels, as QuPath imports them."""
    width, height = tissue.size
    scale = tissue.region.downsample

    def placed(ring: Ring) -> list[list[float]]:
        # The last pixels of a mask reach a little beyond the slide.
        return [
            [round(min(x * scale, width), 3), round(min(y * scale, height), 3)] for x, y in ring
        ]

    features: list[dict[str, Any]] = [
        {
            "type": "Feature",
            "geometry": {
                "type": "Polygon",
                "coordinates": [placed(ring) for ring in polygon],
            },
            "properties": {
                "objectType": "annotation",
                "classification": {"name": "Tissue", "color": [150, 80, 160]},
            },
        }
        for polygon in polygons(tissue.region.pixels)
    ]
    collection = {"type": "FeatureCollection", "features": features}
    with whole_file(path) as part:
        part.write_text(json.dumps(collection) + "\n", encoding="utf-8")


def polygons(mask: NDArray[np.bool_]) -> list[list[Ring]]:
    """Which polygons enclose the true pixels: each an outer ring, then its holes.

    They are ordered by their first pixel. Outer rings run clockwise as one looks at the
    picture, holes the other way round. The edges between true and false pixels, each with the
    true one on its right, are joined up to rings. Where four such edges meet, a ring stays with
    its pixel; pixels that touch at a corner alone are therefore of two polygons. A ring that
    comes to a corner twice is cut there, so that each is simple, as the readers of GeoJSON ask.
    """
    labelled, pieces = ndimage.label(mask)
    label = np.asarray(labelled, np.int32)
    rings: list[list[Ring]] = [[] for _ in range(pieces)]
    for piece, whole in _rings(mask, label):
        for ring in _simple(whole):
            corners = _corners(ring)
            if _area(corners) > 0:
                rings[piece - 1].insert(0, corners)
            else:
                rings[piece - 1].append(corners)
    return rings


def _rings(mask: NDArray[np.bool_], label: NDArray[np.int32]) -> Iterator[tuple[int, Ring]]:
    """Every ring as all its lattice points, with the piece it belongs to; not closed."""
    x, y, heading, piece = _edges(mask, label)
    wide = mask.shape[1] + 1
    start = y * wide + x
    ends = (y + _STEPS[heading, 1]) * wide + x + _STEPS[heading, 0]
    following = _following(4 * start + heading, ends, heading)
    xs, ys, nexts = x.tolist(), y.tolist(), following.tolist()
    seen = [False] * len(xs)
    for first in range(len(xs)):
        ring, at = [], first
        while not seen[at]:
            seen[at] = True
            ring.append((xs[at], ys[at]))
            at = nexts[at]
        if ring:
            yield int(piece[first]), ring


def _edges(
    mask: NDArray[np.bool_], label: NDArray[np.int32]
) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp], NDArray[np.int32]]:
    """Start x and y, heading, and piece of every edge with a true pixel on its right."""
    padded = np.pad(mask, 1)
    inside = padded[1:-1, 1:-1]
    beyond = (padded[:-2, 1:-1], padded[1:-1, 2:], padded[2:, 1:-1], padded[1:-1, :-2])
    corner = ((0, 0), (1, 0), (1, 1), (0, 1))
    parts = []
    for heading, (other, (right, low)) in enumerate(zip(beyond, corner, strict=True)):
        row, column = np.nonzero(inside & ~other)
        parts.append(
            (column + right, row + low, np.full(len(row), heading), label[row, column])
        )
    x, y, headings, pieces = (np.concatenate(part) for part in zip(*parts, strict=True))
    return x, y, headings, pieces


def _following(
    key: NDArray[np.intp], ends: NDArray[np.intp], heading: NDArray[np.intp]
) -> NDArray[np.intp]:
    """The edge after each: to the right where there is one, else straight on, else left."""
    order = np.argsort(key)
    ranked = key[order]
    following = np.full(len(key), -1)
    for turn in (3, 0, 1):  # the last one found counts
        wanted = 4 * ends + (heading + turn) % 4
        place = np.minimum(np.searchsorted(ranked, wanted), max(len(ranked) - 1, 0))
        there = ranked[place] == wanted
        following[there] = order[place[there]]
    return following


def _simple(ring: Ring) -> Iterator[Ring]:
    """Cut where a point comes back: each part visits a point once."""
    path: Ring = []
    place: dict[tuple[int, int], int] = {}
    for point in ring:
        if point in place:
            begin = place[point]
            part = path[begin:]
            for gone in part:
                del place[gone]
            del path[begin:]
            yield part
        place[point] = len(path)
        path.append(point)
    yield path


def _corners(ring: Ring) -> Ring:
    """Closed, without the points that lie on a straight line."""
    before, after = ring[-1:] + ring[:-1], ring[1:] + ring[:1]
    kept = [
        point
        for last, point, following in zip(before, ring, after, strict=True)
        if not (last[0] == point[0] == following[0] or last[1] == point[1] == following[1])
    ]
    return [*kept, kept[0]]


def _area(ring: Ring) -> int:
    """Twice the area; positive where the ring runs clockwise in the picture (y is down)."""
    return sum(x * next_y - next_x * y for (x, y), (next_x, next_y) in pairwise(ring))
