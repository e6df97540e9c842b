"""Who takes part, and what the coordinator gives a hospital: a sealed start-up kit.

A kit holds a certificate, its key and an address; no more. It is a file that opens with its
password only, and shows when it was altered.
"""

from __future__ import annotations

import hmac
import ipaddress
import json
import os
import re
import secrets
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Any

from fedcox.deployment.certificates import (
    Credentials,
    chain_faults,
    date_faults,
    expiry,
)
from fedcox.deployment.extras import need_cryptography
from fedcox.errors import DeploymentError

# A name becomes the subject of a certificate, a file's name and an address inside the engine,
# which separates the parts of an address by dots.
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9])?")
_NAME_WORDS = (
    "use letters, digits, - and _ (at most 63, the first and the last a letter or a digit)"
)
_LABEL = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?")
# The longest subject of a certificate (RFC 5280, ub-common-name).
_LONGEST_HOST = 64
# The engine's own name for the coordinator's machine.
_RESERVED = "server"
LONGEST_DAYS = 3650
# Without letters and digits that sound or look alike: a password is read over the telephone.
_LETTERS = "abcdefghjkmnpqrstuwxyz23456789"
_GROUPS, _IN_GROUP = 5, 4  # 30 ** 20, about 98 bits
_MAGIC = b"fedcox sealed kit 1\n"
_SALT, _NONCE, _CHECK, _TAG = 16, 12, 16, 16
_HEAD = len(_MAGIC) + _SALT + _CHECK + _NONCE
LARGEST = 1 << 16
_VERSION = 1
_TEXTS = ("project", "center", "host", "root", "certificate", "key")


@dataclass(frozen=True)
class Participants:
    """A project's name, the coordinator's address, and the centers."""

    project: str
    host: str
    port: int
    centers: tuple[str, ...]

    def __post_init__(self) -> None:
        faults = self.faults(self.project, self.host, self.port, self.centers)
        if faults:
            raise DeploymentError("The participants cannot be used as they are.", faults)

    @staticmethod
    def faults(project: str, host: str, port: int, centers: Sequence[str]) -> list[str]:
        """Everything that is wrong with them, each as a sentence."""
        return [
            *_project_faults(project),
            *_host_faults(host),
            *_port_faults(port),
            *_center_faults(centers, host),
        ]

    @property
    def on_loopback(self) -> bool:
        """Whether only this machine can connect."""
        return is_loopback(self.host)


def is_loopback(host: str) -> bool:
    """Whether the address leads back to the machine that uses it."""
    address = _address(host)
    return host.lower() == "localhost" if address is None else address.is_loopback


def days_faults(days: int) -> list[str]:
    """What is wrong with a number of days for which certificates shall hold."""
    if 1 <= days <= LONGEST_DAYS:
        return []
    return [f"--days {days}: give a number of days from 1 to {LONGEST_DAYS}."]


def _name_fault(name: str) -> str | None:
    """Why a center cannot have this name; nothing if it can."""
    if not _NAME.fullmatch(name):
        return f"The center {name!r}: {_NAME_WORDS}."
    if name.lower() == _RESERVED:
        return f"The center {name!r}: this is the name of the coordinator's machine."
    return None


def _project_faults(project: str) -> list[str]:
    return [] if _NAME.fullmatch(project) else [f"The name {project!r}: {_NAME_WORDS}."]


def _host_faults(host: str) -> list[str]:
    address = _address(host)
    if isinstance(address, ipaddress.IPv6Address):
        return [f"The host {host!r}: the engine knows no IPv6; give a name or an IPv4 address."]
    if address is not None and (address.is_unspecified or address.is_multicast):
        return [f"The host {host!r}: give the address that the centers connect to."]
    if len(host) > _LONGEST_HOST:
        return [f"The host {host!r}: a certificate has room for {_LONGEST_HOST} characters."]
    labels = host.split(".")
    # A name whose last part is a number would be a mistyped address.
    if address is None and (labels[-1].isdigit() or not all(map(_LABEL.fullmatch, labels))):
        return [f"The host {host!r}: give a name such as hub.example.org, or an IPv4 address."]
    return []


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _port_faults(port: int) -> list[str]:
    return [] if 1 <= port <= 65535 else [f"The port {port}: give a number from 1 to 65535."]


def _center_faults(centers: Sequence[str], host: str) -> list[str]:
    if not centers:
        return ["No center is named: give --center NAME for each."]
    faults = []
    seen: dict[str, str] = {}
    for name in centers:
        fault = _name_fault(name)
        # On some machines a.kit and A.kit are one file.
        other = seen.setdefault(name.lower(), name)
        count = centers.count(name)
        if fault is not None:
            faults.append(fault)
        elif name.lower() == host.lower():
            faults.append(f"The center {name!r} has the name of the coordinator's host.")
        elif other != name:
            faults.append(f"The centers {other!r} and {name!r} differ in capitals only.")
        elif count > 1:
            faults.append(f"The center {name!r} is named {count} times; name each once.")
    return list(dict.fromkeys(faults))


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


@dataclass(frozen=True)
class Kit:
    """A hospital's start-up kit. It holds no rules and no code: the hospital brings its own."""

    project: str
    center: str
    host: str
    port: int
    root: str
    certificate: str
    key: str

    @classmethod
    def of(cls, participants: Participants, center: str, credentials: Credentials) -> Kit:
        """The kit of one center."""
        return cls(
            project=participants.project,
            center=center,
            host=participants.host,
            port=participants.port,
            root=credentials.root.decode("ascii"),
            certificate=credentials.certificate.decode("ascii"),
            key=credentials.key.decode("ascii"),
        )

    @property
    def expires(self) -> date:
        """The day on which the certificate ends (UTC)."""
        return expiry(self.certificate.encode()).date()

    def sealed(self, password: str) -> bytes:
        """The kit as a file that opens with its password only."""
        content = {"version": _VERSION, **asdict(self)}
        return seal(json.dumps(content).encode(), password)

    @classmethod
    def open(cls, file: Path, password: str, *, now: datetime) -> Kit:
        """Read a kit that can be used now; every fault is told."""
        kit = cls._from_json(unseal(_bytes_of(file), password), file)
        certificates = {
            "root": kit.root.encode(),
            "certificate": kit.certificate.encode(),
            "key": kit.key.encode(),
        }
        faults = Participants.faults(kit.project, kit.host, kit.port, [kit.center])
        wrong = chain_faults(**certificates, subject=kit.center)
        if not wrong:
            wrong = date_faults(certificates["certificate"], now)
            wrong = wrong or date_faults(certificates["root"], now)
        if faults or wrong:
            raise DeploymentError(
                f"The kit {file} cannot be used.",
                [*faults, *wrong, "Ask the coordinator for a new kit."],
            )
        return kit

    @classmethod
    def _from_json(cls, content: bytes, file: Path) -> Kit:
        try:
            fields: Any = json.loads(content)
        except ValueError:
            fields = None
        expected = {"version", "port", *_TEXTS}
        if not isinstance(fields, dict) or fields.pop("version", None) != _VERSION:
            raise DeploymentError(
                f"The kit {file} is of another version of fedcox.",
                ["Coordinator and centers need the same version: fedcox --version"],
            )
        port = fields.get("port")
        texts = all(isinstance(fields.get(name), str) for name in _TEXTS)
        if fields.keys() != expected - {"version"} or not texts or type(port) is not int:
            raise DeploymentError(f"The kit {file} does not hold what a kit holds.")
        if not all(fields[name].isascii() for name in _TEXTS):
            raise DeploymentError(f"The kit {file} does not hold what a kit holds.")
        return cls(**fields)


def _bytes_of(file: Path) -> bytes:
    try:
        with file.open("rb") as stream:
            # A little more than any kit, so that a file of another kind is not read whole.
            return stream.read(2 * LARGEST)
    except OSError as error:
        raise DeploymentError(f"The kit {file} cannot be read: {error.strerror}.") from error
