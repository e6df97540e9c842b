"""Cryptographic primitives: those of one well-known package, and Shamir's shares.

In Shamir's scheme the secret is the value at zero of a random polynomial of degree
`threshold` − 1, and a share is the value at another place. Enough centers together recover it;
with fewer shares than the threshold every secret is equally likely.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from hashlib import sha256

import numpy as np

from fedcox.errors import InputError, SecureSumError
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
SECRET_BYTES = 32
SHARE_BYTES = 66
_PRIME = 2**521 - 1  # a Mersenne prime, above every secret of 32 bytes


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


def agree(private: X25519PrivateKey, other: bytes, *, salt: bytes, info: bytes) -> bytes:
    """A key that two centers have in common, from one's private and the other's public half.

    Raises ValueError for a public half that gives everybody the same key.
    """
    secret = private.exchange(X25519PublicKey.from_public_bytes(other))
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


def split(secret: bytes, places: Sequence[int], threshold: int) -> dict[int, bytes]:
    """One share for each place: distinct whole numbers from 1 on."""
    if len(secret) != SECRET_BYTES:
        raise ValueError(f"A secret has {SECRET_BYTES} bytes.")
    if not 1 <= threshold <= len(places):
        raise ValueError("The threshold lies between one and the number of shares.")
    if len(set(places)) != len(places) or min(places) < 1 or max(places) >= _PRIME:
        raise ValueError("Places are distinct and start at one: the secret lies at zero.")
    coefficients = [int.from_bytes(secret)]
    coefficients += [secrets.randbelow(_PRIME) for _ in range(threshold - 1)]
    return {place: _value(coefficients, place).to_bytes(SHARE_BYTES) for place in places}


def join(shares: Mapping[int, bytes]) -> bytes:
    """Recover the secret from at least `threshold` shares by place.

    Too few or altered shares give a wrong secret, or none (SecureSumError): whoever relies on
    it compares it with a digest of the right one.
    """
    total = 0
    for place, share in shares.items():
        numerator, denominator = 1, 1
        for other in shares:
            if other != place:
                numerator = numerator * other % _PRIME
                denominator = denominator * (other - place) % _PRIME
        weight = numerator * pow(denominator, -1, _PRIME)
        total = (total + int.from_bytes(share) * weight) % _PRIME
    if total >= 2 ** (8 * SECRET_BYTES):
        raise SecureSumError("These shares do not belong together: they give no secret.")
    return total.to_bytes(SECRET_BYTES)


def _value(coefficients: Sequence[int], place: int) -> int:
    value = 0
    for coefficient in reversed(coefficients):
        value = (value * place + coefficient) % _PRIME
    return value
