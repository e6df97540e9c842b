"""The coordinator's folder: what stands where, and how it is made, extended and renewed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from pathlib import Path
from typing import Any

from fedcox.deployment.certificates import Authority, date_faults, days_left
from fedcox.deployment.engine_files import (
    write_admin_rules,
    write_admin_startup,
    write_server_rules,
    write_server_startup,
)
from fedcox.deployment.kit import Kit, Participants, days_faults, new_password
from fedcox.deployment.private_files import new_private_folder, read_json, write_private_json
from fedcox.errors import DeploymentError
from fedcox.files.writing import owners_folder, write_atomically

_VERSION = 1
_MISSING = "Make the folder with `fedcox coordinator init`, or name it with --folder."


@dataclass(frozen=True)
class CoordinatorFolder:
    """A coordinator's folder as it stands on disk."""

    path: Path
    project: str
    host: str
    port: int
    centers: tuple[str, ...]
    made: date
    expires: date

    @classmethod
    def read(cls, folder: str | Path) -> CoordinatorFolder:
        """The folder that `fedcox coordinator init` made."""
        path = Path(folder).resolve()
        content = read_json(path / "coordinator.json", _MISSING)
        try:
            return cls(path, **_fields(content))
        except (KeyError, TypeError, ValueError) as error:
            raise DeploymentError(
                f"{path / 'coordinator.json'} is damaged or of another version of fedcox."
            ) from error

    @property
    def authority(self) -> Path:
        return self.path / "authority"

    @property
    def kits(self) -> Path:
        return self.path / "kits"

    @property
    def server(self) -> Path:
        return self.path / "server"

    @property
    def admin(self) -> Path:
        return self.path / "admin"

    @property
    def store(self) -> Path:
        return self.path / "store"

    @property
    def runs(self) -> Path:
        return self.path / "runs"

    @property
    def running(self) -> Path:
        """Who runs the server, while it runs."""
        return self.path / "server.json"

    @property
    def log(self) -> Path:
        return self.path / "server.log"

    @property
    def participants(self) -> Participants:
        return Participants(self.project, self.host, self.port, self.centers)

    def days_left(self, now: datetime) -> int:
        """Whole days until the server's certificate, and so every other, ends."""
        return days_left(self.server / "startup" / "server.crt", now)

    def check_certificate(self, now: datetime) -> None:
        """Refuse to start with a certificate that no center would accept."""
        faults = date_faults((self.server / "startup" / "server.crt").read_bytes(), now)
        if faults:
            raise DeploymentError(
                f"No center would connect to the server of {self.project!r}.",
                [*faults, "Make new ones for all: fedcox coordinator renew"],
            )

    def write_rules(self) -> None:
        """The server's rules, as fedcox gives them: before each start."""
        write_server_rules(self.server, store=self.store, centers=len(self.centers))
        write_admin_rules(self.admin)


def check_init(
    folder: Path, *, project: str, host: str, port: int, centers: Sequence[str], days: int
) -> Participants:
    """The participants, if a folder can be made for them; else every reason why not."""
    faults = [*Participants.faults(project, host, port, centers), *days_faults(days)]
    if folder.exists() or folder.is_symlink():
        faults.append(
            f"{folder} exists already: choose another --folder. To add a center to it, use "
            "`fedcox coordinator add-center`."
        )
    if faults:
        raise DeploymentError("The coordinator's folder cannot be made.", faults)
    return Participants(project, host, port, tuple(centers))


def make_folder(
    folder: Path, participants: Participants, *, days: int, now: datetime
) -> dict[str, str]:
    """Make the folder with a kit per center; the kits' passwords, which are nowhere kept."""
    authority = Authority.create(participants.project, days=days, now=now)
    with new_private_folder(folder) as part:
        for name in ("kits", "runs", "store"):
            owners_folder(part / name)
        made = CoordinatorFolder(
            part,
            participants.project,
            participants.host,
            participants.port,
            participants.centers,
            now.date(),
            authority.expires.date(),
        )
        passwords = _certify(made, authority, now=now)
    # The rules name the store by its full path, which is known only now.
    CoordinatorFolder.read(folder).write_rules()
    return passwords


def add_centers(
    folder: CoordinatorFolder, names: Sequence[str], *, now: datetime
) -> dict[str, str]:
    """A kit for each further center, of the same authority; the kits' passwords."""
    known = {name.lower() for name in folder.centers}
    faults = [
        *(
            f"The center {name!r} takes part already."
            for name in names
            if name.lower() in known
        ),
        *Participants.faults(folder.project, folder.host, folder.port, names),
    ]
    if faults:
        raise DeploymentError("The center cannot be added.", faults)
    wider = replace(folder, centers=(*folder.centers, *names))
    authority = Authority.load(folder.authority, folder.project)
    passwords = _write_kits(wider, authority, names, now=now)
    _write_summary(wider)
    return passwords


def renew(folder: CoordinatorFolder, *, days: int, now: datetime) -> dict[str, str]:
    """New certificates for everybody, of the same authority; the new kits' passwords.

    Centers with the old ones are let in until those expire.
    """
    faults = days_faults(days)
    if faults:
        raise DeploymentError("The certificates cannot be renewed.", faults)
    authority = Authority.load(folder.authority, folder.project).renewed(days=days, now=now)
    longer = replace(folder, expires=authority.expires.date())
    return _certify(longer, authority, now=now)


def _certify(
    folder: CoordinatorFolder, authority: Authority, *, now: datetime
) -> dict[str, str]:
    authority.save(folder.authority)
    place: dict[str, Any] = {
        "project": folder.project,
        "host": folder.host,
        "port": folder.port,
    }
    server = authority.for_server(folder.host, now=now)
    write_server_startup(folder.server, **place, credentials=server)
    write_admin_startup(folder.admin, **place, credentials=authority.for_coordinator(now=now))
    passwords = _write_kits(folder, authority, folder.centers, now=now)
    _write_summary(folder)
    return passwords


def _write_kits(
    folder: CoordinatorFolder, authority: Authority, names: Iterable[str], *, now: datetime
) -> dict[str, str]:
    passwords = {}
    for name in names:
        passwords[name] = new_password()
        kit = Kit.of(folder.participants, name, authority.for_center(name, now=now))
        write_atomically(folder.kits / f"{name}.kit", kit.sealed(passwords[name]))
    return passwords


def _write_summary(folder: CoordinatorFolder) -> None:
    write_private_json(
        folder.path / "coordinator.json",
        {
            "version": _VERSION,
            "project": folder.project,
            "host": folder.host,
            "port": folder.port,
            "centers": list(folder.centers),
            "made": folder.made.isoformat(),
            "expires": folder.expires.isoformat(),
        },
    )


def _fields(content: dict[str, Any]) -> dict[str, Any]:
    if content["version"] != _VERSION:
        raise ValueError
    of = Participants(
        content["project"], content["host"], content["port"], tuple(content["centers"])
    )
    return {
        "project": of.project,
        "host": of.host,
        "port": of.port,
        "centers": of.centers,
        "made": date.fromisoformat(content["made"]),
        "expires": date.fromisoformat(content["expires"]),
    }
