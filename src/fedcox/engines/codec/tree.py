"""The wire format: plain values and arrays as bytes, which come back bit for bit.

A message is a mark, the size of its plain part, that part in msgpack, and the content of its
arrays one after the other, little-endian. In the plain part an array stands by its type and
shape. There is one way to write a value, and what is written in another is not read. Nothing in
a message is executed. What cannot be read to the end is a MessageError, and no more is
allocated for an array than the message itself holds.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from typing import Any, Final, NoReturn, TypeAlias

import msgpack
import numpy as np
from numpy.typing import NDArray

from fedcox.errors import MessageError

Tree: TypeAlias = (
    "bool | int | float | str | bytes | list[Tree] | dict[str, Tree] | NDArray[Any] | None"
)

_NAME: Final = b"fedcox\x00"
#: The last byte is the version of this format.
_MARK: Final = _NAME + b"\x02"
_DEEPEST = 32
_MOST_BYTES = 1 << 30
#: Of a list or a table: a study has fewer centers. What a size alone makes room for is small.
_MOST_ENTRIES = 10_000
_MOST_DIMENSIONS = 32
#: Seeds may have 128 bits; nothing else is as long.
_MOST_INT_BYTES = 16
_SIZE = struct.Struct("<I")

#: Types of our own in the plain part.
_ARRAY, _LARGE_INT = 1, 2
#: By the letter that says so in a message; the same letters as numpy's.
_DTYPES = {
    code: np.dtype(name)
    for code, name in zip(b"fiub", ("<f8", "<i8", "<u8", "|b1"), strict=True)
}
_NATIVE = {code: dtype.newbyteorder("=") for code, dtype in _DTYPES.items()}
#: What msgpack finds wrong, where its class says so.
_REASONS: Mapping[type, str] = {
    msgpack.ExtraData: "it goes on after its end",
    msgpack.StackError: f"it is nested more than {_DEEPEST} deep",
    msgpack.FormatError: "it holds something of an unknown kind",
    UnicodeDecodeError: "a text is none",
}
_BASES: tuple[Any, ...] = (int, float, str, bytes, list, dict)
_ALLOWED = (*_BASES, np.ndarray, type(None))


def to_bytes(tree: Tree) -> bytes:
    """The message that stands for this value."""
    arrays: list[NDArray[Any]] = []
    plain = _plain(tree, arrays)
    message = b"".join(
        [_MARK, _SIZE.pack(len(plain)), plain, *(_content(array) for array in arrays)]
    )
    if len(message) > _MOST_BYTES:
        raise MessageError(
            "A message is too large to send.",
            [f"It has {len(message):,} bytes; at most {_MOST_BYTES:,} are allowed."],
        )
    return message


def from_bytes(message: bytes) -> Tree:
    """The value that `to_bytes` wrote."""
    start = len(_MARK) + _SIZE.size
    if not isinstance(message, bytes):
        _unreadable("it is not made of bytes")
    if len(message) > _MOST_BYTES:
        _unreadable(f"it has more than {_MOST_BYTES:,} bytes")
    if not message.startswith(_MARK):
        known = message.startswith(_NAME)
        _unreadable(
            "it was written by another version of fedcox; all must run the same"
            if known
            else "it does not begin as a message of fedcox does"
        )
    if len(message) < start:
        _unreadable("it is cut")
    (size,) = _SIZE.unpack_from(message, len(_MARK))
    if size > len(message) - start:
        _unreadable("it is cut")
    arrays = _Arrays(message, start + size)
    tree = _read(message[start : start + size], arrays)
    arrays.check_end()
    return tree


def _unreadable(reason: str) -> NoReturn:
    raise MessageError("A message cannot be read.", [f"The reason: {reason}."])


def _unsendable(reason: str) -> MessageError:
    return MessageError("A message cannot be written.", [f"The reason: {reason}."])


def _plain(tree: Tree, arrays: list[NDArray[Any]]) -> bytes:
    """All of a value but the content of its arrays, which are collected."""
    _check(tree, 0)

    def ours(value: object) -> object:
        if isinstance(value, np.ndarray):
            arrays.append(value)
            return msgpack.ExtType(_ARRAY, _header(value))
        if type(value) is int:  # beyond 64 bits
            return msgpack.ExtType(_LARGE_INT, _large(value))
        # Of a class derived from one that is sent, as numpy's floats are.
        return next(kind for kind in _BASES if isinstance(value, kind))(value)

    try:
        plain: bytes = msgpack.Packer(default=ours, strict_types=True, buf_size=4096).pack(tree)
    except UnicodeEncodeError:
        raise _unsendable("a text has characters that are none") from None
    return plain


def _check(value: object, depth: int) -> None:
    """Refuse what msgpack would write and a message must not hold."""
    if not isinstance(value, _ALLOWED):
        raise _unsendable(f"it holds a {type(value).__name__}")
    if not isinstance(value, dict | list) or not value:
        return
    if depth == _DEEPEST:
        raise _unsendable(f"it is nested more than {_DEEPEST} deep")
    if len(value) > _MOST_ENTRIES:
        raise _unsendable(f"a part of it has more than {_MOST_ENTRIES:,} entries")
    for key in value if isinstance(value, dict) else ():
        if not isinstance(key, str):
            raise _unsendable(f"a table has a key that is a {type(key).__name__}")
    for entry in value.values() if isinstance(value, dict) else value:
        _check(entry, depth + 1)


def _large(value: int) -> bytes:
    size = (value if value >= 0 else ~value).bit_length() // 8 + 1
    if size > _MOST_INT_BYTES:
        raise _unsendable(f"a whole number needs more than {8 * _MOST_INT_BYTES} bits")
    return value.to_bytes(size, "little", signed=True)


def _header(array: NDArray[Any]) -> bytes:
    """An array's type and shape."""
    code = ord(array.dtype.kind)
    dtype = _DTYPES.get(code)
    if dtype is None or array.dtype.itemsize != dtype.itemsize:
        raise _unsendable(f"it holds an array of {array.dtype}")
    if array.ndim > _MOST_DIMENSIONS:
        raise _unsendable(f"an array has more than {_MOST_DIMENSIONS} dimensions")
    if max(array.shape, default=0) > _MOST_BYTES:
        raise _unsendable(f"a part of it has more than {_MOST_BYTES:,} entries")
    return struct.pack(f"<B{array.ndim}I", code, *array.shape)


def _content(array: NDArray[Any]) -> Any:
    """An array's numbers, not copied where they lie as they are sent."""
    dtype = _DTYPES[ord(array.dtype.kind)]
    return np.asarray(array, dtype=dtype, order="C").data if array.size else b""


def _read(plain: bytes, arrays: _Arrays) -> Tree:
    def ours(code: int, content: bytes) -> object:
        if code == _ARRAY:
            return arrays.following(content)
        if code == _LARGE_INT and len(content) <= _MOST_INT_BYTES:
            return int.from_bytes(content, "little", signed=True)
        _unreadable("it holds something of an unknown kind")

    # No list is longer than its message, and none has room made for more.
    most = min(_MOST_ENTRIES, len(plain))
    try:
        tree: Tree = msgpack.unpackb(
            plain, ext_hook=ours, strict_map_key=True, max_array_len=most, max_map_len=most
        )
    except ValueError as error:
        _unreadable(
            _REASONS.get(type(error), "it is cut, or a table has a key that is no text")
        )
    try:
        again = _plain(tree, [])
    except MessageError as error:
        raise MessageError("A message cannot be read.", error.faults) from None
    if again != plain:
        _unreadable("it says something twice, or longer than it needs to")
    return tree


class _Arrays:
    """Goes through the content of a message's arrays once."""

    def __init__(self, message: bytes, place: int) -> None:
        self._message, self._place = message, place

    def following(self, header: bytes) -> NDArray[Any]:
        """The next array, of the type and shape that its header says."""
        dimensions, rest = divmod(len(header) - 1, _SIZE.size)
        dtype = _DTYPES.get(header[0]) if header else None
        if dtype is None or rest:
            _unreadable("an array is of an unknown type")
        if dimensions > _MOST_DIMENSIONS:
            _unreadable(f"an array has more than {_MOST_DIMENSIONS} dimensions")
        shape = struct.unpack_from(f"<{dimensions}I", header, 1)
        entries, start = math.prod(shape), self._place
        self._place += entries * dtype.itemsize
        if self._place > len(self._message):
            _unreadable("it is cut")
        native = _NATIVE[header[0]]
        if not entries:
            return _empty(shape, native)
        truth = dtype.kind == "b"
        flat = np.frombuffer(self._message, np.uint8 if truth else dtype, entries, start)
        if truth and flat.max() > 1:
            _unreadable("a truth value is neither")
        # A copy: aligned, in the machine's own byte order, and apart from the message.
        return flat.astype(native).reshape(shape)

    def check_end(self) -> None:
        if self._place != len(self._message):
            _unreadable("it goes on after its end")


def _empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    try:
        return np.empty(shape, dtype)
    except ValueError:  # the sizes beside the zero may be anything
        _unreadable("an array has an impossible shape")
