"""A file that opens with its password only, and shows when it was altered."""

from __future__ import annotations

import hmac
import os
import secrets

from fedcox.deployment.certificates import need_cryptography
from fedcox.errors import DeploymentError

# Without letters and digits that sound or look alike: a password is read over the telephone.
_LETTERS = "abcdefghjkmnpqrstuwxyz23456789"
_GROUPS, _IN_GROUP = 5, 4  # 30 ** 20, about 98 bits

_MAGIC = b"fedcox sealed kit 1\n"
_SALT, _NONCE, _CHECK, _TAG = 16, 12, 16, 16
_HEAD = len(_MAGIC) + _SALT + _CHECK + _NONCE
LARGEST = 1 << 16


def new_password() -> str:
    """A random password in groups, easy to read aloud."""
    return "-".join(
        "".join(secrets.choice(_LETTERS) for _ in range(_IN_GROUP)) for _ in range(_GROUPS)
    )


def seal(content: bytes, password: str) -> bytes:
    """Encrypt `content` so that only the password opens it (scrypt, ChaCha20-Poly1305)."""
    need_cryptography()
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    if len(content) > LARGEST:
        raise ValueError(f"a sealed file holds at most {LARGEST} bytes")
    salt, nonce = os.urandom(_SALT), os.urandom(_NONCE)
    key, check = _derived(password, salt)
    head = _MAGIC + salt + check + nonce
    return head + ChaCha20Poly1305(key).encrypt(nonce, content, head)


def unseal(sealed: bytes, password: str) -> bytes:
    """The content of a sealed file; a wrong password and an altered file are told apart."""
    need_cryptography()
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    if not sealed.startswith(_MAGIC):
        raise DeploymentError(
            "This is not a start-up kit of fedcox.",
            ["A kit is a file NAME.kit that `fedcox coordinator init` wrote."],
        )
    if not _HEAD + _TAG <= len(sealed) <= _HEAD + LARGEST + _TAG:
        raise DeploymentError("The kit was cut or altered on its way.", [_AGAIN])
    head, body = sealed[:_HEAD], sealed[_HEAD:]
    salt, rest = head[len(_MAGIC) :][:_SALT], head[len(_MAGIC) + _SALT :]
    key, check = _derived(password, salt)
    if not hmac.compare_digest(check, rest[:_CHECK]):
        raise DeploymentError(
            "The password does not open this kit.",
            [
                "Each kit has its own password, which the coordinator tells you, in groups of "
                "four such as abcd-efgh-…; capitals and spaces do not matter.",
                "If it is surely the right one, the file was altered on its way.",
            ],
        )
    try:
        return ChaCha20Poly1305(key).decrypt(rest[_CHECK:], body, head)
    except InvalidTag as error:
        raise DeploymentError("The kit was cut or altered on its way.", [_AGAIN]) from error


_AGAIN = "The password is right: ask the coordinator to send the file again."


def _derived(password: str, salt: bytes) -> tuple[bytes, bytes]:
    """The key, and a value by which a wrong password is known before anything is opened."""
    from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

    # Fixed, never read from the file: its writer must not choose the work of its reader.
    kdf = Scrypt(salt=salt, length=32 + _CHECK, n=1 << 15, r=8, p=1)
    both = kdf.derive(_as_spoken(password).encode())
    return both[:32], both[32:]


def _as_spoken(password: str) -> str:
    """Without what is not said aloud: hyphens, spaces, capitals."""
    return "".join(letter for letter in password.lower() if letter not in "- \t\r\n")
