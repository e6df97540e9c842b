"""How a picture is set: text, lines of a given width, a bar of known length. Needs pillow."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from io import BytesIO
from typing import TYPE_CHECKING

from fedcox.errors import needs_extra

if TYPE_CHECKING:
    from pathlib import Path

    from PIL.Image import Image as Picture
    from PIL.ImageDraw import ImageDraw
    from PIL.ImageFont import FreeTypeFont, ImageFont

INK, SOFT, LINE, PAPER = (22, 33, 43), (81, 96, 110), (200, 208, 216), (255, 255, 255)
WARNING = (163, 38, 27)
#: Signs that pillow's font does not have.
_PLAIN = str.maketrans({"−": "-", "–": "-", "…": "...", "×": "x"})


@dataclass(frozen=True)
class Box:
    """A rectangle in pixels of the picture."""

    left: int
    top: int
    width: int
    height: int

    @property
    def right(self) -> int:
        return self.left + self.width

    @property
    def bottom(self) -> int:
        return self.top + self.height


@cache
def font(size: int) -> FreeTypeFont | ImageFont:
    """The font that comes with pillow, so that pictures are the same everywhere."""
    try:
        from PIL import ImageFont
    except ImportError:
        raise needs_extra("pillow", "slides") from None
    return ImageFont.load_default(size)


def write(
    draw: ImageDraw,
    at: tuple[float, float],
    text: str,
    *,
    size: int,
    fill: tuple[int, int, int] = INK,
) -> None:
    """One line of text, its upper left corner at this place."""
    draw.text(at, text.translate(_PLAIN), font=font(size), fill=fill)


def length(draw: ImageDraw, text: str, size: int) -> float:
    """How wide a line is."""
    return float(draw.textlength(text.translate(_PLAIN), font=font(size)))


def blank(width: int, height: int) -> Picture:
    """An empty sheet of paper."""
    try:
        from PIL import Image
    except ImportError:
        raise needs_extra("pillow", "slides") from None
    return Image.new("RGB", (width, height), PAPER)


def wrapped(draw: ImageDraw, text: str, size: int, width: int) -> list[str]:
    """The text in lines that fit the width."""
    lines, line = [], ""
    for word in text.split(" "):
        longer = f"{line} {word}" if line else word
        if line and length(draw, longer, size) > width:
            lines.append(line)
            longer = word
        line = longer
    return [*lines, line]


def paragraph(
    draw: ImageDraw,
    at: tuple[int, int],
    text: str,
    *,
    size: int,
    width: int,
    fill: tuple[int, int, int] = INK,
) -> int:
    """Write wrapped text; the answer is the height below its last line."""
    left, top = at
    for line in wrapped(draw, text, size, width):
        write(draw, (left, top), line, size=size, fill=fill)
        top += round(1.35 * size)
    return top


def scale_bar(draw: ImageDraw, panel: Box, microns_per_pixel: float) -> None:
    """A bar of a round length in mm in the lower left corner, with its length."""
    longest = 0.25 * panel.width * microns_per_pixel
    microns = round_length(longest)
    words = f"{microns / 1000:g} mm"
    pixels = round(microns / microns_per_pixel)
    size = 28
    wide = max(pixels, round(length(draw, words, size)))
    left, bottom = panel.left + 14, panel.bottom - 14
    card = (left - 8, bottom - size - 24, left + wide + 10, bottom + 6)
    draw.rounded_rectangle(card, radius=5, fill=PAPER, outline=LINE)
    write(draw, (left, bottom - size - 20), words, size=size)
    draw.rectangle((left, bottom - 8, left + pixels, bottom - 3), fill=INK)


def round_length(longest: float) -> float:
    """The largest of 1, 2, 5 times a power of ten that is not longer.

    >>> [round_length(longest) for longest in (1.0, 4.9, 770.0)]
    [1.0, 2.0, 500.0]
    """
    power: float = 10.0 ** math.floor(math.log10(longest))
    return max(step * power for step in (0.5, 1.0, 2.0, 5.0) if step * power <= longest)


def png_bytes(picture: Picture, words: dict[str, str] | None = None) -> bytes:
    """The picture as a PNG file, with these words in its text chunks."""
    from PIL.PngImagePlugin import PngInfo

    about = PngInfo()
    for name, text in (words or {}).items():
        about.add_text(name, text)
    kept = BytesIO()
    # Packing is most of the work of a map: half the time for a tenth more bytes.
    picture.save(kept, format="PNG", pnginfo=about, compress_level=3)
    return kept.getvalue()


def shown_picture(path: Path, widest: int) -> str:
    """A picture on disk as an address that a page can hold: a JPEG no wider than this."""
    from base64 import b64encode

    from PIL import Image

    with Image.open(path) as opened:
        small = opened.convert("RGB")
    small.thumbnail((widest, 10 * widest))
    kept = BytesIO()
    small.save(kept, format="JPEG", quality=88)
    return f"data:image/jpeg;base64,{b64encode(kept.getvalue()).decode()}"


def write_png(path: Path, picture: Picture, words: dict[str, str] | None = None) -> None:
    """Whole or not at all."""
    from fedcox.files.writing import whole_file

    with whole_file(path) as part:
        part.write_bytes(png_bytes(picture, words))
