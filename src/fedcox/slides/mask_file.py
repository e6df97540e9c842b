"""How a slide's tissue lies on the disk: a PNG for programs, GeoJSON for QuPath.

The PNG is white where tissue is, and tells in its text what the slide's level 0 was like, so
that tiles can be laid without the slide.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from fedcox.errors import SlideError, needs_extra
from fedcox.files.writing import whole_file
from fedcox.slides.outlines import Ring, polygons
from fedcox.slides.region import Region
from fedcox.slides.step import Settings

SCHEMA = "fedcox-mask-1"
#: What a damaged picture raises, by where the damage is; beside pillow's own errors.
DAMAGED_PICTURE = (OSError, ValueError, SyntaxError, EOFError, struct.error, zlib.error)


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
    try:
        from PIL import Image, PngImagePlugin
    except ImportError as error:
        raise needs_extra("pillow", "slides") from error

    told = PngImagePlugin.PngInfo()
    told.add_text("downsample", repr(tissue.region.downsample))
    told.add_text("mpp", repr(tissue.mpp))
    told.add_text("size", f"{tissue.size[0]} {tissue.size[1]}")
    told.add_text(SCHEMA, json.dumps(dict(settings), sort_keys=True))
    image = Image.fromarray(np.where(tissue.region.pixels, 255, 0).astype(np.uint8))
    with whole_file(path) as part:
        image.save(part, "PNG", pnginfo=told)


def read_mask(path: Path) -> tuple[SlideTissue, Settings]:
    """What `write_mask` wrote, and its settings; SlideError where it is something else."""
    try:
        from PIL import Image
    except ImportError as error:
        raise needs_extra("pillow", "slides") from error

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
    try:
        from PIL import Image
    except ImportError as error:
        raise needs_extra("pillow", "slides") from error

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
