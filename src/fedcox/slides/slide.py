"""What a scanner's file holds, in micrometres.

Places are pixels of level 0, the finest; sizes are micrometres, whatever the scanner's
resolution. Glass that was never scanned is white.

OpenSlide opens a TIFF that was cut off in copying as long as its directories are there, and
fails at the first tile that is not: after hours, or never, where no tissue lies there. So
whether it names pixels beyond its own end is looked at first.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedcox.errors import SlideError, from_extra
from fedcox.files.reading import too_large_fault

if TYPE_CHECKING:
    import openslide
    from PIL import Image


Pixels: TypeAlias = NDArray[np.uint8]
"""(height, width, 3), red, green, blue."""

# Scanners have 0.1 to 1 micrometre per pixel. 72 dots per inch, which image programs write
# without meaning it, would be 353.
_COARSEST_MPP = 20.0
_FINEST_MPP = 0.01
# Pixels of the source that are held at once along one side.
_BLOCK = 2048
# Tags of TIFF directories, and the numbers that types of entries stand for.
_TILE_WIDTH, _TILE_LENGTH = 322, 323
_STRIPS, _STRIP_BYTES, _TILES, _TILE_BYTES, _MORE_DIRECTORIES = 273, 279, 324, 325, 330
_WANTED = {
    *(_TILE_WIDTH, _TILE_LENGTH),
    *(_STRIPS, _STRIP_BYTES, _TILES, _TILE_BYTES, _MORE_DIRECTORIES),
}
_LETTER = {3: "u2", 4: "u4", 13: "u4", 16: "u8", 18: "u8"}


@dataclass(frozen=True, eq=False)
class Slide:
    """An open slide; `mpp` (micrometres per pixel) and `size` (width, height) of level 0."""

    path: Path
    mpp: float
    size: tuple[int, int]
    vendor: str
    _handle: openslide.OpenSlide

    @property
    def level_downsamples(self) -> tuple[float, ...]:
        return tuple(float(factor) for factor in self._handle.level_downsamples)

    @property
    def associated(self) -> tuple[str, ...]:
        """Names of the pictures beside the scan, such as label and macro.

        A label may show a patient's name: they are counted and named, never read.
        """
        return tuple(sorted(self._handle.associated_images))

    def read_tile(self, x: int, y: int, tile_px: int, mpp: float) -> Pixels:
        """(tile_px, tile_px, 3) at `mpp`, with its upper left corner at level-0 pixel (x, y).

        Read from the nearest finer level, then resized; pixel by pixel where a level has this
        resolution to within half a pixel over the tile.
        """
        side = tile_px * mpp / self.mpp
        level, factor = self._finer_level(mpp / self.mpp)
        pixels = max(1, round(side / factor))
        image = self._read((x, y), level, (pixels, pixels))
        if pixels != tile_px:
            from PIL import Image

            image = image.resize((tile_px, tile_px), Image.Resampling.BILINEAR)
        return np.asarray(image)

    def overview(self, mpp: float) -> Pixels:
        """The whole slide at `mpp`; pixel (i, j) covers `mpp` micrometres square.

        Shape: level-0 size times own mpp over `mpp`, rounded up. Read in blocks, so that a
        slide without coarser levels needs no more memory than its overview.
        """
        downsample = mpp / self.mpp
        width, height = (int(np.ceil(side / downsample)) for side in self.size)
        level, factor = self._finer_level(downsample)
        ratio = downsample / factor
        block = max(1, int(_BLOCK / ratio))
        _check_pixels(self.path.name, width * height * 3)
        whole = np.empty((height, width, 3), np.uint8)
        for top in range(0, height, block):
            for left in range(0, width, block):
                rows, columns = min(block, height - top), min(block, width - left)
                piece = self._block((left, top), (columns, rows), level, factor, ratio)
                whole[top : top + rows, left : left + columns] = piece
        return whole

    def thumbnail(self, max_px: int) -> Pixels:
        """The whole slide, its longer side `max_px` pixels, or level 0 where that is less."""
        return self.overview(max(self.mpp, max(self.size) * self.mpp / max_px))

    def _block(
        self,
        corner: tuple[int, int],
        shape: tuple[int, int],
        level: int,
        factor: float,
        ratio: float,
    ) -> Pixels:
        """Pixels of an overview: `corner` and `shape` are (across, down) in it."""
        # Resizing looks at pixels around each: without them, blocks would have seams.
        around = 0 if ratio == 1 else int(np.ceil(ratio)) + 1
        begin = [int(np.floor(at * ratio)) - around for at in corner]
        first = [at * ratio - start for at, start in zip(corner, begin, strict=True)]
        last = [at + many * ratio for at, many in zip(first, shape, strict=True)]
        origin = round(begin[0] * factor), round(begin[1] * factor)
        spans = [int(np.ceil(end)) + around for end in last]
        image = self._read(origin, level, (spans[0], spans[1]))
        if ratio == 1:
            return np.asarray(image)
        from PIL import Image

        box = (first[0], first[1], last[0], last[1])
        return np.asarray(image.resize(shape, Image.Resampling.BILINEAR, box=box))

    def _finer_level(self, downsample: float) -> tuple[int, float]:
        """The coarsest level that is not coarser than asked, to within a rounded size."""
        factors = self.level_downsamples
        level = max(
            (at for at, factor in enumerate(factors) if factor <= downsample * 1.002), default=0
        )
        return level, factors[level]

    def _read(self, corner: tuple[int, int], level: int, shape: tuple[int, int]) -> Image.Image:
        import openslide
        from PIL import Image

        _check_pixels(self.path.name, shape[0] * shape[1] * 4)
        try:
            region = self._handle.read_region(corner, level, shape)
        except openslide.OpenSlideError as error:
            raise SlideError(
                f"The pixels at level 0, {corner[0]} across and {corner[1]} down, cannot be "
                f"read: {error}.",
                ["The file is damaged; copy it again."],
            ) from error
        scanned = region.getchannel("A")
        if scanned.getextrema() == (255, 255):
            return region.convert("RGB")
        white = Image.new("RGB", region.size, (255, 255, 255))
        white.paste(region, mask=scanned)
        return white


@contextmanager
def open_slide(path: str | Path, assume_mpp: float | None = None) -> Iterator[Slide]:
    """A slide to read from; `assume_mpp` counts only where the file does not tell its own.

    SlideError where the file is no slide, is cut off, or has no resolution.
    """
    with from_extra("openslide-python", "slides"):
        import openslide

    file = Path(path)
    if not file.exists():
        raise SlideError(f"There is no file {file}.", ["Correct the manifest's path."])
    # A folder may be a slide (of DICOM files), but it has no end that could be missing.
    if file.is_file():
        _check_tiff(file)
    try:
        handle = openslide.OpenSlide(file)
    except openslide.OpenSlideUnsupportedFormatError as error:
        raise SlideError(
            f"{file.name} is not a slide that OpenSlide can read.",
            ["Needed: SVS, NDPI, MRXS, SCN, BIF, VMS, DICOM, or a tiled TIFF pyramid."],
        ) from error
    except openslide.OpenSlideError as error:
        raise SlideError(
            f"{file.name} cannot be opened: {error}.", ["The file is damaged; copy it again."]
        ) from error
    with handle:
        vendor = str(handle.properties.get(openslide.PROPERTY_NAME_VENDOR, "unknown"))
        mpp = _resolution(handle, file.name, assume_mpp)
        width, height = handle.dimensions
        yield Slide(file, mpp, (int(width), int(height)), vendor, handle)


def _check_tiff(file: Path) -> None:
    try:
        cut_off = is_cut_off(file)
        largest = 0 if cut_off else largest_tile(file)
    except OSError as error:
        raise SlideError(
            f"{file.name} cannot be read: {error.strerror or error}.",
            ["Needed is a file that you may read."],
        ) from error
    if cut_off:
        raise SlideError(
            f"{file.name} is truncated: it names pixels beyond its own end.",
            ["Copy it again, whole."],
        )
    _check_pixels(file.name, 4 * largest)


def _check_pixels(name: str, size: int) -> None:
    """SlideError where pixels of so many bytes are more than the machine can hold."""
    fault = too_large_fault(size)
    if fault is not None:
        raise SlideError(f"{name} cannot be read: its pixels are too many.", [fault])


def _resolution(handle: openslide.OpenSlide, name: str, assume_mpp: float | None) -> float:
    """Micrometres per pixel, the same both ways."""
    import openslide

    sides = []
    for key in (openslide.PROPERTY_NAME_MPP_X, openslide.PROPERTY_NAME_MPP_Y):
        try:
            sides.append(float(handle.properties.get(key, "nan")))
        except ValueError:
            sides.append(float("nan"))
    across, down = sides
    if _is_scanners(across) and _is_scanners(down):
        if abs(across - down) > 0.02 * across:
            raise SlideError(
                f"The pixels of {name} are not square: {across:g} by {down:g} micrometres.",
                ["Needed are square pixels; export the slide again."],
            )
        return (across + down) / 2
    if assume_mpp is not None:
        return assume_mpp
    fault = (
        "does not say how large its pixels are"
        if np.isnan(across) or np.isnan(down)
        else f"says that its pixels are {across:g} micrometres wide, which no scanner's are"
    )
    raise SlideError(
        f"{name} {fault}.",
        ["Where you know it from the scanner, say --assume-mpp, such as --assume-mpp 0.5."],
    )


def _is_scanners(mpp: float) -> bool:
    return _FINEST_MPP <= mpp <= _COARSEST_MPP


def tells_mpp(path: Path) -> bool:
    """Whether the file itself tells a resolution that can be one; SlideError as above."""
    with open_slide(path, assume_mpp=float("nan")) as slide:
        return not np.isnan(slide.mpp)


class _PastEndError(Exception):
    """Bytes were asked for that the file does not have."""


@dataclass(frozen=True)
class _Form:
    """Byte order, and the sizes by which plain TIFF and BigTIFF differ."""

    order: str
    big: bool

    @property
    def pointer(self) -> str:
        return f"{self.order}{'Q' if self.big else 'I'}"

    @property
    def entries(self) -> str:
        return f"{self.order}{'Q' if self.big else 'H'}"

    @property
    def entry(self) -> str:
        """Tag, type, how many values, the values or where they are."""
        return f"{self.order}HH{'Q8s' if self.big else 'I4s'}"


def is_cut_off(path: Path) -> bool:
    """False of a file that is no TIFF: OpenSlide has to judge that."""
    try:
        return any(_end(tags) > path.stat().st_size for tags in _opened(path))
    except _PastEndError:
        return True


def largest_tile(path: Path) -> int:
    """Pixels of the largest tile, which is read whole; zero of a file that is no TIFF."""
    sizes = [
        int(tags[_TILE_WIDTH].max(initial=0)) * int(tags[_TILE_LENGTH].max(initial=0))
        for tags in _opened(path)
        if _TILE_WIDTH in tags and _TILE_LENGTH in tags
    ]
    return max(sizes, default=0)


def _opened(path: Path) -> Iterator[dict[int, NDArray[np.uint64]]]:
    """What is wanted of each directory; nothing of a file that is no TIFF."""
    with path.open("rb") as file:
        form = _form(file.read(4))
        # Beyond 4 GiB the pointers of plain TIFF do not reach; NDPI files have ways of theirs.
        if form is not None and (form.big or path.stat().st_size < 2**32):
            yield from _directories(file, form)


def _form(mark: bytes) -> _Form | None:
    known = {b"II*\0": ("<", False), b"MM\0*": (">", False)}
    known |= {b"II+\0": ("<", True), b"MM\0+": (">", True)}
    return _Form(*known[mark]) if mark in known else None


def _directories(file: BinaryIO, form: _Form) -> Iterator[dict[int, NDArray[np.uint64]]]:
    """Of every directory, by tag: where pixels lie, how long they are, how large a tile is."""
    (first,) = struct.unpack(form.pointer, _bytes(file, _size(form), _size(form)))
    left, seen = [first], set()
    while left:
        at = left.pop()
        if at == 0 or at in seen:
            continue
        seen.add(at)
        tags, following = _directory(file, form, at)
        left += [following, *(int(more) for more in tags.get(_MORE_DIRECTORIES, ()))]
        yield tags


def _directory(
    file: BinaryIO, form: _Form, at: int
) -> tuple[dict[int, NDArray[np.uint64]], int]:
    """The tags of one directory that tell places, and where the next one begins."""
    head, row = struct.calcsize(form.entries), struct.calcsize(form.entry)
    (number,) = struct.unpack(form.entries, _bytes(file, at, head))
    block = _bytes(file, at + head, number * row + _size(form))
    tags = {}
    for tag, kind, many, value in struct.iter_unpack(form.entry, block[: number * row]):
        letter = _LETTER.get(kind)
        if tag in _WANTED and letter:
            dtype = np.dtype(f"{form.order}{letter}")
            wide = many * dtype.itemsize
            if wide > len(value):
                value = _bytes(file, struct.unpack(form.pointer, value)[0], wide)
            tags[tag] = np.frombuffer(value[:wide], dtype).astype(np.uint64)
    (following,) = struct.unpack(form.pointer, block[number * row :])
    return tags, following


def _end(tags: dict[int, NDArray[np.uint64]]) -> int:
    """The first byte after the pixels of a directory; tiles of no bytes are nowhere."""
    ends = [0]
    for places, sizes in ((_STRIPS, _STRIP_BYTES), (_TILES, _TILE_BYTES)):
        if places in tags and sizes in tags:
            both = min(len(tags[places]), len(tags[sizes]))
            place, size = tags[places][:both], tags[sizes][:both]
            ends += [int((place + size)[size > 0].max(initial=0))]
    return max(ends)


def _size(form: _Form) -> int:
    return struct.calcsize(form.pointer)


def _bytes(file: BinaryIO, at: int, many: int) -> bytes:
    if at + many > os.fstat(file.fileno()).st_size:
        raise _PastEndError
    file.seek(at)
    return file.read(many)
