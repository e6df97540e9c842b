"""What the coordinator gives a hospital: a certificate, its key and an address; no more."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Any

from fedcox.deployment.authority import Credentials
from fedcox.deployment.certificates import chain_faults, date_faults, expiry
from fedcox.deployment.participants import Participants
from fedcox.deployment.sealing import LARGEST, seal, unseal
from fedcox.errors import DeploymentError

_VERSION = 1
_TEXTS = ("project", "center", "host", "root", "certificate", "key")


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
