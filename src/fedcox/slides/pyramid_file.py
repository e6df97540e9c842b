"""A picture written as a slide: a TIFF pyramid of JPEG tiles, with its resolution."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fedcox.errors import needs_extra
from fedcox.slides.slide import Pixels

if TYPE_CHECKING:
    from PIL import Image

_TILE = 256
_QUALITY = 85
_ASCII, _SHORT, _LONG, _RATIONAL = 2, 3, 4, 5
_LETTER = {_ASCII: "s", _SHORT: "H", _LONG: "I", _RATIONAL: "II"}
_JPEG, _YCBCR, _CENTIMETRE, _REDUCED = 7, 6, 3, 1

Tags = dict[int, tuple[int, list[int] | bytes]]


def write_pyramid(
    path: Path, pixels: Pixels, mpp: float, *, levels: int = 3, description: str = ""
) -> None:
    """Each level half the one before. The same pixels give the same bytes.

    `mpp` is micrometres per pixel; without a number (NaN) the file does not tell it.
    """
    try:
        from PIL import Image
    except ImportError as error:
        raise needs_extra("pillow", "slides") from error

    picture = Image.fromarray(pixels)
    with path.open("wb") as file:
        file.write(b"II*\0")
        pointer = file.tell()
        file.write(bytes(4))
        for level in range(levels):
            size = picture.width >> level, picture.height >> level
            coarser = picture if level == 0 else picture.resize(size, Image.Resampling.BOX)
            tiles = list(_jpeg_tiles(coarser))
            begin = file.tell()
            file.write(b"".join(tiles))
            lengths = [len(tile) for tile in tiles]
            starts = [begin, *(begin + np.cumsum(lengths)[:-1]).tolist()]
            tags = _tags(size, starts, lengths, level) | _resolution(mpp)
            if description and level == 0:
                tags[270] = (_ASCII, description.encode("ascii") + b"\0")
            file.write(bytes(file.tell() % 2))
            pointer = _write_directory(file, tags, pointer)


def _jpeg_tiles(picture: Image.Image) -> Iterator[bytes]:
    """Tiles from left to right, then down; the last ones are filled up with white."""
    from PIL import Image

    for top in range(0, picture.height, _TILE):
        for left in range(0, picture.width, _TILE):
            tile = Image.new("RGB", (_TILE, _TILE), (255, 255, 255))
            right, bottom = (
                min(left + _TILE, picture.width),
                min(top + _TILE, picture.height),
            )
            tile.paste(picture.crop((left, top, right, bottom)))
            stream = io.BytesIO()
            tile.save(stream, "JPEG", quality=_QUALITY, subsampling="4:2:0")
            yield stream.getvalue()


def _tags(size: tuple[int, int], starts: list[int], lengths: list[int], level: int) -> Tags:
    """What TIFF 6.0 and its JPEG supplement ask of a tiled colour image."""
    return {
        254: (_LONG, [_REDUCED if level else 0]),
        256: (_LONG, [size[0]]),
        257: (_LONG, [size[1]]),
        258: (_SHORT, [8, 8, 8]),
        259: (_SHORT, [_JPEG]),
        262: (_SHORT, [_YCBCR]),
        277: (_SHORT, [3]),
        284: (_SHORT, [1]),
        322: (_LONG, [_TILE]),
        323: (_LONG, [_TILE]),
        324: (_LONG, starts),
        325: (_LONG, lengths),
        530: (_SHORT, [2, 2]),
    }


def _resolution(mpp: float) -> Tags:
    """Pixels per centimetre, to six digits; nothing where it is not told."""
    if np.isnan(mpp):
        return {}
    rational = [round(1e4 / mpp * 1e5), 100_000]
    return {
        282: (_RATIONAL, rational),
        283: (_RATIONAL, rational),
        296: (_SHORT, [_CENTIMETRE]),
    }


def _write_directory(file: io.BufferedWriter, tags: Tags, pointer: int) -> int:
    """Write a directory, link it from `pointer`, and tell where the next one is linked."""
    at = file.tell()
    further = at + 2 + 12 * len(tags) + 4
    entries, values = [struct.pack("<H", len(tags))], []
    for tag, (kind, content) in sorted(tags.items()):
        packed, many = _packed(kind, content)
        if len(packed) <= 4:
            place = packed.ljust(4, b"\0")
        else:
            place = struct.pack("<I", further)
            values.append(packed + bytes(len(packed) % 2))
            further += len(values[-1])
        entries.append(struct.pack("<HHI", tag, kind, many) + place)
    file.write(b"".join([*entries, bytes(4), *values]))
    file.seek(pointer)
    file.write(struct.pack("<I", at))
    file.seek(0, io.SEEK_END)
    return at + 2 + 12 * len(tags)


def _packed(kind: int, content: list[int] | bytes) -> tuple[bytes, int]:
    """The bytes of a tag's values, and how many values they are."""
    if isinstance(content, bytes):
        return content, len(content)
    each = len(_LETTER[kind])
    return struct.pack(f"<{len(content)}{_LETTER[kind][0]}", *content), len(content) // each
