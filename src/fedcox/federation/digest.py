"""One fingerprint per question: equal for equal questions, in whichever process they are.

Masks are made from it, so that centers which are not asked the same thing cannot be summed; and
by it a center knows the question under noise that it answered last.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Collection
from dataclasses import is_dataclass
from typing import Any

import numpy as np

from fedcox.federation.fields import field_names

_LENGTH = struct.Struct("<Q")


def digest(question: object, *, without: Collection[str] = ()) -> bytes:
    """SHA-256 over the class and every public field, arrays by their bytes.

    Fields named in `without` are left out, wherever they are.
    """
    parts: list[bytes] = []
    _add(question, without, parts)
    # Lengths keep neighbouring parts apart: ("ab", "c") is not ("a", "bc").
    return hashlib.sha256(
        b"".join(piece for part in parts for piece in (_LENGTH.pack(len(part)), part))
    ).digest()


def _add(value: object, without: Collection[str], parts: list[bytes]) -> None:
    if isinstance(value, np.ndarray):
        parts += (f"{value.dtype.str}{value.shape}".encode(), value.tobytes())
    elif isinstance(value, tuple | list):
        parts.append(f"sequence of {len(value)}".encode())
        for entry in value:
            _add(entry, without, parts)
    elif is_dataclass(value):
        kind: Any = type(value)
        parts.append(kind.__name__.encode())
        for name in field_names(kind):
            if name not in without:
                parts.append(name.encode())
                _add(getattr(value, name), without, parts)
    else:
        parts.append(_one(value))


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
