"""How do plain values and arrays become bytes? So that they come back bit for bit.

A message is a mark, then one value: a letter that says what it is, its size where it has one,
and its content, little-endian. Nothing in it is executed. What cannot be read to the end is a
MessageError, and nothing is allocated for more than the message itself holds.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Any, ClassVar, Final, NoReturn, TypeAlias

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
_LETTER_AND_SIZE = struct.Struct("<BI")
_LETTER_AND_FLOAT = struct.Struct("<Bd")

_NONE, _FALSE, _TRUE, _INT, _REAL, _TEXT, _BYTES, _LIST, _TABLE, _ARRAY = b"NFTIRSBLDA"
#: By the letter that says so in a message; the same letters as numpy's.
_DTYPES = {
    code: np.dtype(name)
    for code, name in zip(b"fiub", ("<f8", "<i8", "<u8", "|b1"), strict=True)
}
_NATIVE = {code: dtype.newbyteorder("=") for code, dtype in _DTYPES.items()}


def to_bytes(tree: Tree) -> bytes:
    """The message that stands for this value."""
    parts: list[Any] = [_MARK]
    _write(tree, 0, parts)
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


def _write(value: object, depth: int, parts: list[Any]) -> None:
    """Add the pieces of a value; arrays are not copied until all pieces are joined."""
    if depth > _DEEPEST:
        raise _unsendable(f"it is nested more than {_DEEPEST} deep")
    write = _WRITERS.get(type(value)) or _writer_of_base(value)
    write(value, depth, parts)


def _writer_of_base(value: object) -> Callable[[Any, int, list[Any]], None]:
    """For a value whose class is derived from one that may be sent, as numpy's floats are."""
    for kind, write in _WRITERS.items():
        if isinstance(value, kind):
            return write
    raise _unsendable(f"it holds a {type(value).__name__}")


def _write_none(value: None, depth: int, parts: list[Any]) -> None:
    parts.append(b"N")


def _write_bool(value: bool, depth: int, parts: list[Any]) -> None:
    parts.append(b"T" if value else b"F")


def _write_int(value: int, depth: int, parts: list[Any]) -> None:
    size = _int_size(value)
    if size > _MOST_INT_BYTES:
        raise _unsendable(f"a whole number needs more than {8 * _MOST_INT_BYTES} bits")
    parts.append(bytes((_INT, size)) + value.to_bytes(size, "little", signed=True))


def _write_float(value: float, depth: int, parts: list[Any]) -> None:
    parts.append(_LETTER_AND_FLOAT.pack(_REAL, value))


def _write_text(value: str, depth: int, parts: list[Any]) -> None:
    try:
        text = value.encode()
    except UnicodeEncodeError:
        raise _unsendable("a text has characters that are none") from None
    parts += (_sized(_TEXT, len(text)), text)


def _write_bytes(value: bytes, depth: int, parts: list[Any]) -> None:
    parts += (_sized(_BYTES, len(value)), value)


def _write_list(value: list[object], depth: int, parts: list[Any]) -> None:
    parts.append(_sized(_LIST, len(value)))
    for entry in value:
        _write(entry, depth + 1, parts)


def _write_table(value: dict[object, object], depth: int, parts: list[Any]) -> None:
    parts.append(_sized(_TABLE, len(value)))
    for key, entry in value.items():
        if not isinstance(key, str):
            raise _unsendable(f"a table has a key that is a {type(key).__name__}")
        _write_text(key, depth, parts)
        _write(entry, depth + 1, parts)


def _write_array(value: NDArray[Any], depth: int, parts: list[Any]) -> None:
    code = ord(value.dtype.kind)
    dtype = _DTYPES.get(code)
    if dtype is None or value.dtype.itemsize != dtype.itemsize:
        raise _unsendable(f"it holds an array of {value.dtype}")
    if value.ndim > _MOST_DIMENSIONS:
        raise _unsendable(f"an array has more than {_MOST_DIMENSIONS} dimensions")
    _check_size(max(value.shape, default=0))
    parts.append(struct.pack(f"<BBB{value.ndim}I", _ARRAY, code, value.ndim, *value.shape))
    if value.size:
        parts.append(np.asarray(value, dtype=dtype, order="C").data)


#: Truth values are whole numbers to Python, so they come first.
_WRITERS: dict[type, Callable[[Any, int, list[Any]], None]] = {
    type(None): _write_none,
    bool: _write_bool,
    int: _write_int,
    float: _write_float,
    str: _write_text,
    bytes: _write_bytes,
    np.ndarray: _write_array,
    dict: _write_table,
    list: _write_list,
}


def _sized(letter: int, size: int) -> bytes:
    _check_size(size)
    return _LETTER_AND_SIZE.pack(letter, size)


def _check_size(size: int) -> None:
    if size > _MOST_BYTES:
        raise _unsendable(f"a part of it has more than {_MOST_BYTES:,} entries")


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

    def value(self, depth: int) -> Tree:
        if depth > _DEEPEST:
            _unreadable(f"it is nested more than {_DEEPEST} deep")
        read = self._readers.get(self._message[self._skip(1)])
        if read is None:
            _unreadable("it holds something of an unknown kind")
        return read(self, depth)

    def check_end(self) -> None:
        if self._place != len(self._message):
            _unreadable("it goes on after its end")

    def _skip(self, size: int) -> int:
        """Go past the next bytes, all of them, and say where they begin."""
        start = self._place
        if size > len(self._message) - start:
            _unreadable("it is cut")
        self._place = start + size
        return start

    def _size(self) -> int:
        size: int = _SIZE.unpack_from(self._message, self._skip(_SIZE.size))[0]
        return size

    def _bytes(self, depth: int) -> bytes:
        size = self._size()
        start = self._skip(size)
        return self._message[start : start + size]

    def _int(self, depth: int) -> int:
        size = self._message[self._skip(1)]
        start = self._skip(size)
        value = int.from_bytes(self._message[start : start + size], "little", signed=True)
        if not 1 <= size <= _MOST_INT_BYTES or _int_size(value) != size:
            _unreadable("a whole number is longer than it needs to be")
        return value

    def _float(self, depth: int) -> float:
        value: float = _FLOAT.unpack_from(self._message, self._skip(_FLOAT.size))[0]
        return value

    def _text(self, depth: int) -> str:
        try:
            return self._bytes(depth).decode()
        except UnicodeDecodeError:
            _unreadable("a text is none")

    def _list(self, depth: int) -> list[Tree]:
        # Grows entry by entry: a size that was made up ends where the message does.
        return [self.value(depth + 1) for _ in range(self._size())]

    def _table(self, depth: int) -> dict[str, Tree]:
        table: dict[str, Tree] = {}
        for _ in range(self._size()):
            if self._message[self._skip(1)] != _TEXT:
                _unreadable("a table has a key that is no text")
            key = self._text(depth)
            if key in table:
                _unreadable("a table has a key twice")
            table[key] = self.value(depth + 1)
        return table

    def _array(self, depth: int) -> NDArray[Any]:
        start = self._skip(2)
        code, dimensions = self._message[start], self._message[start + 1]
        dtype = _DTYPES.get(code)
        if dtype is None:
            _unreadable("an array is of an unknown type")
        if dimensions > _MOST_DIMENSIONS:
            _unreadable(f"an array has more than {_MOST_DIMENSIONS} dimensions")
        place = self._skip(dimensions * _SIZE.size)
        shape = struct.unpack_from(f"<{dimensions}I", self._message, place)
        entries = math.prod(shape)
        start = self._skip(entries * dtype.itemsize)
        native = _NATIVE[code]
        if not entries:
            return _empty(shape, native)
        truth = dtype.kind == "b"
        flat = np.frombuffer(self._message, np.uint8 if truth else dtype, entries, start)
        if truth and flat.max(initial=0) > 1:
            _unreadable("a truth value is neither")
        # A copy: aligned, in the machine's own byte order, and apart from the message.
        return flat.astype(native).reshape(shape)

    #: By the letter that says what follows.
    _readers: ClassVar[dict[int, Callable[[_Reader, int], Tree]]] = {
        _NONE: lambda reader, depth: None,
        _FALSE: lambda reader, depth: False,
        _TRUE: lambda reader, depth: True,
        _INT: _int,
        _REAL: _float,
        _TEXT: _text,
        _BYTES: _bytes,
        _LIST: _list,
        _TABLE: _table,
        _ARRAY: _array,
    }
