"""One fingerprint per question: equal for equal questions, in whichever process they are.

Masks are made from it, so that centers which are not asked the same thing cannot be summed; and
by it a center knows what it has answered before.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Collection, Iterator
from dataclasses import fields, is_dataclass

import numpy as np


def digest(question: object, *, without: Collection[str] = ()) -> bytes:
    """SHA-256 over the class and every public field, arrays by their bytes.

    Fields named in `without` are left out, wherever they are.
    """
    hasher = hashlib.sha256()
    for part in _parts(question, without):
        # Lengths keep neighbouring parts apart: ("ab", "c") is not ("a", "bc").
        hasher.update(struct.pack("<Q", len(part)))
        hasher.update(part)
    return hasher.digest()


def _parts(value: object, without: Collection[str]) -> Iterator[bytes]:
    if isinstance(value, np.ndarray):
        yield f"{value.dtype.str}{value.shape}".encode()
        yield np.ascontiguousarray(value).tobytes()
    elif isinstance(value, tuple | list):
        yield f"sequence of {len(value)}".encode()
        for entry in value:
            yield from _parts(entry, without)
    elif is_dataclass(value):
        yield type(value).__name__.encode()
        for part in fields(value):
            if not part.name.startswith("_") and part.name not in without:
                yield part.name.encode()
                yield from _parts(getattr(value, part.name), without)
    else:
        yield _one(value)


def _one(value: object) -> bytes:
    if isinstance(value, float):
        return b"float" + struct.pack("<d", value)
    if isinstance(value, bytes):
        return b"bytes" + value
    if value is None or isinstance(value, bool | int | str):
        return f"{type(value).__name__}:{value}".encode()
    if hasattr(value, "name"):  # a member of an enumeration, or a link
        return f"{type(value).__name__}:{value.name}".encode()
    raise TypeError(f"A question cannot hold a {type(value).__name__}.")
