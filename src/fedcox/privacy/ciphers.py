"""The cryptographic primitives that fedcox uses, all of them from one well-known package."""

from __future__ import annotations

from hashlib import sha256

import numpy as np

from fedcox.errors import InputError
from fedcox.privacy.fixed_point import UIntArray

try:
    from cryptography.exceptions import InvalidSignature, InvalidTag
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )
    from cryptography.hazmat.primitives.asymmetric.x25519 import (
        X25519PrivateKey,
        X25519PublicKey,
    )
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF, HKDFExpand
except ImportError as error:
    raise InputError(
        "Secure sums need the package 'cryptography', which is not installed.",
        ['Install it with: pip install "fedcox[private]"'],
    ) from error

__all__ = [
    "Ed25519PrivateKey",
    "Ed25519PublicKey",
    "InvalidSignature",
    "InvalidTag",
    "X25519PrivateKey",
    "agree",
    "decrypt",
    "digest",
    "encrypt",
    "expand",
    "fields",
    "fields_in",
    "fit_to_agree",
    "keystream",
    "raw_public",
    "serialization",
    "xor",
]

_START = bytes(16)  # every key is used for one stream or one box only
_NONCE = bytes(12)


def fields(*parts: bytes | str) -> bytes:
    """Write parts one after the other so that no two lists of parts read the same."""
    written = b""
    for part in parts:
        raw = part.encode() if isinstance(part, str) else part
        written += len(raw).to_bytes(4, "big") + raw
    return written


def fields_in(body: bytes) -> list[bytes]:
    """The parts that `fields` wrote one after the other."""
    pieces, place = [], 0
    while place < len(body):
        length = int.from_bytes(body[place : place + 4], "big")
        place += 4
        if place + length > len(body):
            raise ValueError("Too short.")
        pieces.append(body[place : place + length])
        place += length
    return pieces


def digest(*parts: bytes | str) -> bytes:
    """SHA-256 over a list of parts."""
    return sha256(fields(*parts)).digest()


def raw_public(key: X25519PrivateKey) -> bytes:
    """The 32 bytes of the public half."""
    return key.public_key().public_bytes_raw()


def agree(own: X25519PrivateKey, other: bytes, *, salt: bytes, info: bytes) -> bytes:
    """A key that two centers have in common, from one's private and the other's public half.

    Raises ValueError for a public half that gives everybody the same key.
    """
    secret = own.exchange(X25519PublicKey.from_public_bytes(other))
    return HKDF(algorithm=hashes.SHA256(), length=32, salt=salt, info=info).derive(secret)


def fit_to_agree(public: bytes) -> bool:
    """Whether `agree` can use this public half; it then can whatever the other half is."""
    try:
        agree(X25519PrivateKey.generate(), public, salt=b"", info=b"")
    except ValueError:
        return False
    return True


def expand(key: bytes, *purpose: bytes | str, length: int = 32) -> bytes:
    """Derive a key for one purpose; nothing about `key` or other purposes follows from it."""
    derived = HKDFExpand(algorithm=hashes.SHA256(), length=length, info=fields(*purpose))
    return derived.derive(key)


def keystream(key: bytes, zeros: bytes, out: UIntArray) -> None:
    """Fill `out` with uniform integers from a key that is used only here.

    `zeros` is as long as `out` in bytes; it is passed in so that many streams share it.
    """
    cipher = Cipher(algorithms.ChaCha20(key, _START), mode=None)
    cipher.encryptor().update_into(zeros, out.view(np.uint8).data)


def encrypt(key: bytes, content: bytes, *, bound_to: bytes) -> bytes:
    """Encrypt under a key that is used once, so that a change of one bit is noticed."""
    return ChaCha20Poly1305(key).encrypt(_NONCE, content, bound_to)


def decrypt(key: bytes, box: bytes, *, bound_to: bytes) -> bytes:
    """Undo `encrypt`; InvalidTag where key, content or what it is bound to differ."""
    return ChaCha20Poly1305(key).decrypt(_NONCE, box, bound_to)


def xor(*parts: bytes) -> bytes:
    """Bitwise exclusive or of parts of one length."""
    total = 0
    for part in parts:
        total ^= int.from_bytes(part)
    return total.to_bytes(len(parts[0]))
