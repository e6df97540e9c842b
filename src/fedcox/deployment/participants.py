"""Who takes part, and where the coordinator listens: names and addresses that can be used."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass

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
