"""Who speaks: a center's signing key, and what the others know of it."""

from __future__ import annotations

import base64
import binascii
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from fedcox.errors import InputError
from fedcox.privacy.ciphers import (
    Ed25519PrivateKey,
    Ed25519PublicKey,
    InvalidSignature,
    digest,
    serialization,
)

_PREFIX = "fedcox-ed25519"
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


@dataclass(frozen=True)
class PublicIdentity:
    """What the other centers hold of a center beforehand: it tells who signed."""

    raw: bytes

    def __post_init__(self) -> None:
        if len(self.raw) != 32:
            raise InputError(f"A public identity has 32 bytes; this one has {len(self.raw)}.")

    @property
    def fingerprint(self) -> str:
        """128 bits in groups of four digits, to be compared over the telephone."""
        code = digest(b"fedcox fingerprint", self.raw).hex()[:32]
        return " ".join(code[start : start + 4] for start in range(0, len(code), 4))

    def signed(self, message: bytes, signature: bytes) -> bool:
        """Whether the holder of the private half signed exactly this message."""
        try:
            Ed25519PublicKey.from_public_bytes(self.raw).verify(signature, message)
        except (InvalidSignature, ValueError):
            return False
        return True

    def to_text(self) -> str:
        """One line, to be sent to the other centers by any way that cannot be altered."""
        return f"{_PREFIX} {base64.b64encode(self.raw).decode('ascii')}"

    @classmethod
    def from_text(cls, text: str) -> PublicIdentity:
        """Read the line that `to_text` writes."""
        prefix, _, code = text.strip().partition(" ")
        try:
            raw = base64.b64decode(code, validate=True)
        except (binascii.Error, ValueError):
            raw = b""
        if prefix != _PREFIX or len(raw) != 32:
            raise InputError(
                "This is not a public identity.",
                [f"It is one line: '{_PREFIX}', a space, and 44 characters."],
            )
        return cls(raw)


@dataclass(frozen=True, eq=False)
class Identity:
    """A center's own signing key (Ed25519). Its private half never leaves the center."""

    _key: Ed25519PrivateKey

    @classmethod
    def create(cls) -> Identity:
        """A new one, from the operating system's randomness."""
        return cls(Ed25519PrivateKey.generate())

    @property
    def public(self) -> PublicIdentity:
        return PublicIdentity(self._key.public_key().public_bytes_raw())

    def sign(self, message: bytes) -> bytes:
        """64 bytes that only this identity can make for this message."""
        return self._key.sign(message)

    def save(self, file: Path) -> None:
        """Write the private key where only its owner can read it; never over another file."""
        content = self._key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        try:
            opened = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError as error:
            raise InputError(
                f"{file} exists. An identity is not replaced: the other centers know it.",
                ["Give another name, or move the old file away first."],
            ) from error
        except OSError as error:
            raise InputError(f"{file} cannot be written: {error.strerror}.") from error
        with os.fdopen(opened, "wb") as stream:
            stream.write(content)

    @classmethod
    def load(cls, file: Path) -> Identity:
        """Read a private key that nobody but its owner can read."""
        try:
            content, mode = file.read_bytes(), file.stat().st_mode
        except OSError as error:
            raise InputError(f"{file} cannot be read: {error.strerror}.") from error
        if os.name == "posix" and mode & _OTHERS:
            raise InputError(
                f"{file} can be read by others on this machine; a private key must not be.",
                [f"Run: chmod 600 {file}", "If others may have read it, make a new identity."],
            )
        try:
            key = serialization.load_pem_private_key(content, password=None)
        except (ValueError, TypeError):
            key = None
        if not isinstance(key, Ed25519PrivateKey):
            raise InputError(f"{file} holds no private Ed25519 key without a password in PEM.")
        return cls(key)
