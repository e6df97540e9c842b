"""How do plain values and arrays become bytes? So that they come back bit for bit.

A message is a mark, then one value: a letter that says what it is, its size where it has one,
and its content, little-endian. Nothing in it is executed. What cannot be read to the end is a
MessageError, and nothing is allocated for more than the message itself holds.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator
from typing import Any, Final, NoReturn, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedcox.errors import MessageError

Tree: TypeAlias = (
    "bool | int | float | str | bytes | list[Tree] | dict[str, Tree] | NDArray[Any] | None"
)

#: The last byte is the version of this format.
_MARK: Final = b"fedcox\x00\x01"
_DEEPEST = 32
_MOST_BYTES = 1 << 30
_MOST_DIMENSIONS = 32
#: Seeds may have 128 bits; nothing else is as long.
_MOST_INT_BYTES = 16
_SIZE = struct.Struct("<I")
_FLOAT = struct.Struct("<d")

_NONE, _FALSE, _TRUE, _INT, _REAL, _TEXT, _BYTES, _LIST, _TABLE, _ARRAY = b"NFTIRSBLDA"
#: By the letter that says so in a message; the same letters as numpy's.
_DTYPES = {
    code: np.dtype(name)
    for code, name in zip(b"fiub", ("<f8", "<i8", "<u8", "|b1"), strict=True)
}


def to_bytes(tree: Tree) -> bytes:
    """The message that stands for this value."""
    parts = [_MARK, *_written(tree, 0)]
    message = b"".join(parts)
    if len(message) > _MOST_BYTES:
        raise MessageError(
            "A message is too large to send.",
            [f"It has {len(message):,} bytes; at most {_MOST_BYTES:,} are allowed."],
        )
    return message


def from_bytes(message: bytes) -> Tree:
    """The value that `to_bytes` wrote."""
    if not isinstance(message, bytes):
        _unreadable("it is not made of bytes")
    if len(message) > _MOST_BYTES:
        _unreadable(f"it has more than {_MOST_BYTES:,} bytes")
    if message[: len(_MARK)] != _MARK:
        _unreadable("it does not begin as a message of this version of fedcox does")
    reader = _Reader(message, len(_MARK))
    tree = reader.value(0)
    reader.check_end()
    return tree


def _unreadable(reason: str) -> NoReturn:
    raise MessageError("A message cannot be read.", [f"The reason: {reason}."])


def _written(value: object, depth: int) -> Iterator[Any]:
    """Pieces of the message; arrays are not copied until these are joined."""
    if depth > _DEEPEST:
        raise _unsendable(f"it is nested more than {_DEEPEST} deep")
    for kinds, write in _WRITERS:
        if isinstance(value, kinds):
            yield from write(value, depth)
            return
    raise _unsendable(f"it holds a {type(value).__name__}")


def _write_none(value: None, depth: int) -> Iterator[bytes]:
    yield bytes([_NONE])


def _write_bool(value: bool, depth: int) -> Iterator[bytes]:
    yield bytes([_TRUE if value else _FALSE])


def _write_int(value: int, depth: int) -> Iterator[bytes]:
    size = _int_size(value)
    if size > _MOST_INT_BYTES:
        raise _unsendable(f"a whole number needs more than {8 * _MOST_INT_BYTES} bits")
    yield bytes([_INT, size]) + value.to_bytes(size, "little", signed=True)


def _write_float(value: float, depth: int) -> Iterator[bytes]:
    yield bytes([_REAL]) + _FLOAT.pack(value)


def _write_text(value: str, depth: int) -> Iterator[bytes]:
    try:
        text = value.encode()
    except UnicodeEncodeError:
        raise _unsendable("a text has characters that are none") from None
    yield bytes([_TEXT]) + _sized(len(text))
    yield text


def _write_bytes(value: bytes, depth: int) -> Iterator[bytes]:
    yield bytes([_BYTES]) + _sized(len(value))
    yield value


def _write_list(value: list[object], depth: int) -> Iterator[Any]:
    yield bytes([_LIST]) + _sized(len(value))
    for entry in value:
        yield from _written(entry, depth + 1)


def _write_table(value: dict[object, object], depth: int) -> Iterator[Any]:
    yield bytes([_TABLE]) + _sized(len(value))
    for key, entry in value.items():
        if not isinstance(key, str):
            raise _unsendable(f"a table has a key that is a {type(key).__name__}")
        yield from _write_text(key, depth)
        yield from _written(entry, depth + 1)


def _write_array(value: NDArray[Any], depth: int) -> Iterator[Any]:
    code = ord(value.dtype.kind)
    dtype = _DTYPES.get(code)
    if dtype is None or value.dtype.itemsize != dtype.itemsize:
        raise _unsendable(f"it holds an array of {value.dtype}")
    if value.ndim > _MOST_DIMENSIONS:
        raise _unsendable(f"an array has more than {_MOST_DIMENSIONS} dimensions")
    yield bytes([_ARRAY, code, value.ndim]) + b"".join(map(_sized, value.shape))
    if value.size:
        yield np.asarray(value, dtype=dtype, order="C").data


#: Truth values are whole numbers to Python, so they come first.
_WRITERS: tuple[tuple[type, Callable[[Any, int], Iterator[Any]]], ...] = (
    (type(None), _write_none),
    (bool, _write_bool),
    (int, _write_int),
    (float, _write_float),
    (str, _write_text),
    (bytes, _write_bytes),
    (np.ndarray, _write_array),
    (dict, _write_table),
    (list, _write_list),
)


def _sized(size: int) -> bytes:
    if size > _MOST_BYTES:
        raise _unsendable(f"a part of it has more than {_MOST_BYTES:,} entries")
    return _SIZE.pack(size)


def _int_size(value: int) -> int:
    """Bytes that a whole number needs, its sign included."""
    return (value if value >= 0 else ~value).bit_length() // 8 + 1


def _unsendable(reason: str) -> MessageError:
    return MessageError("A message cannot be written.", [f"The reason: {reason}."])


def _empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    try:
        return np.empty(shape, dtype)
    except ValueError:  # the sizes beside the zero may be anything
        _unreadable("an array has an impossible shape")


class _Reader:
    """Goes through a message once, from its beginning to its end."""

    def __init__(self, message: bytes, place: int) -> None:
        self._message, self._place = message, place
        self._readers: dict[int, Callable[[int], Tree]] = {
            _NONE: lambda depth: None,
            _FALSE: lambda depth: False,
            _TRUE: lambda depth: True,
            _INT: self._int,
            _REAL: lambda depth: float(_FLOAT.unpack(self._taken(_FLOAT.size))[0]),
            _TEXT: lambda depth: self._text(),
            _BYTES: lambda depth: self._taken(self._size()),
            _LIST: self._list,
            _TABLE: self._table,
            _ARRAY: self._array,
        }

    def value(self, depth: int) -> Tree:
        if depth > _DEEPEST:
            _unreadable(f"it is nested more than {_DEEPEST} deep")
        reader = self._readers.get(self._taken(1)[0])
        if reader is None:
            _unreadable("it holds something of an unknown kind")
        return reader(depth)

    def check_end(self) -> None:
        if self._place != len(self._message):
            _unreadable("it goes on after its end")

    def _taken(self, size: int) -> bytes:
        """The next bytes, all of them."""
        start = self._skip(size)
        return self._message[start : self._place]

    def _skip(self, size: int) -> int:
        """Go past the next bytes, and say where they begin."""
        start = self._place
        if size > len(self._message) - start:
            _unreadable("it is cut")
        self._place += size
        return start

    def _size(self) -> int:
        return int(_SIZE.unpack(self._taken(_SIZE.size))[0])

    def _int(self, depth: int) -> int:
        size = self._taken(1)[0]
        value = int.from_bytes(self._taken(size), "little", signed=True)
        if not 1 <= size <= _MOST_INT_BYTES or _int_size(value) != size:
            _unreadable("a whole number is longer than it needs to be")
        return value

    def _text(self) -> str:
        try:
            return self._taken(self._size()).decode()
        except UnicodeDecodeError:
            _unreadable("a text is none")

    def _list(self, depth: int) -> list[Tree]:
        # Grows entry by entry: a size that was made up ends where the message does.
        return [self.value(depth + 1) for _ in range(self._size())]

    def _table(self, depth: int) -> dict[str, Tree]:
        table: dict[str, Tree] = {}
        for _ in range(self._size()):
            if self._taken(1)[0] != _TEXT:
                _unreadable("a table has a key that is no text")
            key = self._text()
            if key in table:
                _unreadable("a table has a key twice")
            table[key] = self.value(depth + 1)
        return table

    def _array(self, depth: int) -> NDArray[Any]:
        code, dimensions = self._taken(2)
        dtype = _DTYPES.get(code)
        if dtype is None:
            _unreadable("an array is of an unknown type")
        if dimensions > _MOST_DIMENSIONS:
            _unreadable(f"an array has more than {_MOST_DIMENSIONS} dimensions")
        shape = tuple(self._size() for _ in range(dimensions))
        entries = math.prod(shape)
        start = self._skip(entries * dtype.itemsize)
        stored = np.dtype(np.uint8) if dtype.kind == "b" else dtype
        if not entries:
            return _empty(shape, dtype.newbyteorder("="))
        flat = np.frombuffer(self._message, stored, entries, start)
        if dtype.kind == "b" and flat.max(initial=0) > 1:
            _unreadable("a truth value is neither")
        # A copy: aligned, in the machine's own byte order, and apart from the message.
        return flat.astype(dtype.newbyteorder("=")).reshape(shape)
