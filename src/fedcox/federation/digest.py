"""One fingerprint per question: equal for equal questions, in whichever process they are.

Masks are made from it, so that centers which are not asked the same thing cannot be summed.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator
from dataclasses import fields, is_dataclass

import numpy as np


def digest(question: object) -> bytes:
    """SHA-256 over the class and every public field, arrays by their bytes."""
    hasher = hashlib.sha256()
    for part in _parts(question):
        # Lengths keep neighbouring parts apart: ("ab", "c") is not ("a", "bc").
        hasher.update(struct.pack("<Q", len(part)))
        hasher.update(part)
    return hasher.digest()


def _parts(value: object) -> Iterator[bytes]:
    if isinstance(value, np.ndarray):
        yield f"{value.dtype.str}{value.shape}".encode()
        yield np.ascontiguousarray(value).tobytes()
    elif isinstance(value, tuple | list):
        yield f"sequence of {len(value)}".encode()
        for entry in value:
            yield from _parts(entry)
    elif is_dataclass(value):
        yield type(value).__name__.encode()
        for part in fields(value):
            if not part.name.startswith("_"):
                yield part.name.encode()
                yield from _parts(getattr(value, part.name))
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
