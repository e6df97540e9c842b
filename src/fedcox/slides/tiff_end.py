"""Whether a TIFF file names pixels beyond its own end, and how large its tiles are.

OpenSlide opens a file that was cut off in copying as long as its directories are there, and
fails at the first tile that is not: after hours, or never, where no tissue lies there.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

_TILE_WIDTH, _TILE_LENGTH = 322, 323
_STRIPS, _STRIP_BYTES, _TILES, _TILE_BYTES, _MORE_DIRECTORIES = 273, 279, 324, 325, 330
_WANTED = {
    *(_TILE_WIDTH, _TILE_LENGTH),
    *(_STRIPS, _STRIP_BYTES, _TILES, _TILE_BYTES, _MORE_DIRECTORIES),
}
_LETTER = {3: "u2", 4: "u4", 13: "u4", 16: "u8", 18: "u8"}


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
