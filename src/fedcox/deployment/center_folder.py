"""A hospital's folder: what stands where, and how a kit becomes one."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedcox.deployment.certificates import Credentials, date_faults, days_left, same_authority
from fedcox.deployment.engine_files import ROOT, write_center_rules, write_center_startup
from fedcox.deployment.kit import Kit, Participants
from fedcox.deployment.private_files import new_private_folder, read_json, write_private_json
from fedcox.errors import DeploymentError
from fedcox.files.writing import owners_folder

if TYPE_CHECKING:
    from fedcox.federation.policy import Policy

_VERSION = 1
_MISSING = "Make the folder with `fedcox center join NAME.kit`, or name it with --folder."


@dataclass(frozen=True)
class CenterFolder:
    """A hospital's folder as it stands on disk."""

    path: Path
    name: str
    project: str
    host: str
    port: int
    expires: date

    @classmethod
    def read(cls, folder: str | Path) -> CenterFolder:
        """The folder that `fedcox center join` made."""
        path = Path(folder).resolve()
        content = read_json(path / "center.json", _MISSING)
        try:
            return cls(path, **_fields(content))
        except (KeyError, TypeError, ValueError) as error:
            raise DeploymentError(
                f"{path / 'center.json'} is damaged or of another version of fedcox."
            ) from error

    @property
    def identity(self) -> Path:
        """The center's own signing key, made here."""
        return self.path / "identity.pem"

    @property
    def flare(self) -> Path:
        return self.path / "flare"

    @property
    def settings(self) -> Path:
        return self.path / "settings.json"

    @property
    def pending(self) -> Path:
        return self.path / "pending"

    @property
    def approved(self) -> Path:
        return self.path / "approved"

    @property
    def memory(self) -> Path:
        return self.path / "memory"

    @property
    def ledger(self) -> Path:
        return self.path / "ledger.jsonl"

    @property
    def budget(self) -> Path:
        return self.path / "budget.jsonl"

    @property
    def running(self) -> Path:
        """Who runs the client, while it runs."""
        return self.path / "running.json"

    @property
    def log(self) -> Path:
        return self.path / "center.log"

    @property
    def trouble(self) -> Path:
        """What went wrong or needs a look, in words that stay in the hospital."""
        return self.path / "trouble.log"

    def note(self, words: str) -> None:
        """Write it there; `fedcox center start` shows it at once."""
        now = datetime.now().astimezone().isoformat(timespec="seconds")
        with self.trouble.open("a", encoding="utf-8") as file:
            file.write(f"{now} {words.rstrip()}\n")

    def days_left(self, now: datetime) -> int:
        """Whole days until this center's certificate ends; negative once it has."""
        return days_left(self.flare / "startup" / "client.crt", now)

    def check_certificate(self, now: datetime) -> None:
        """Refuse to start with a certificate that nobody would accept."""
        faults = date_faults((self.flare / "startup" / "client.crt").read_bytes(), now)
        if faults:
            raise DeploymentError(
                f"The center {self.name!r} cannot connect.",
                [*faults, "Ask the coordinator for a new kit: fedcox center join … --renew"],
            )

    def write_rules(self) -> None:
        """The hospital's rules, as fedcox gives them: before each start."""
        write_center_rules(self.flare)


#: In place of a policy: nothing is refused, as for patients that are no secret.
NO_LIMITS = "none"


@dataclass(frozen=True)
class CenterSettings:
    """What `fedcox center start` was given: the patients' file and the hospital's policy.

    `budget` is the account of another folder of the hospital, which this one shares.
    """

    data: str
    policy: str
    budget: str | None = None

    def write(self, file: Path) -> None:
        write_private_json(file, asdict(self))

    @classmethod
    def read(cls, file: Path) -> CenterSettings:
        content = read_json(file, "Start the center with `fedcox center start`.")
        try:
            return cls(str(content["data"]), str(content["policy"]), content.get("budget"))
        except KeyError as error:
            raise DeploymentError(
                f"{file} is damaged.", ["Start the center again with `fedcox center start`."]
            ) from error

    def account(self, folder: CenterFolder) -> Path:
        """The file of what studies spent."""
        return folder.budget if self.budget is None else Path(self.budget)

    def read_policy(self) -> Policy | None:
        """The policy, if there are limits."""
        from fedcox.study.admission import read_policy

        return None if self.policy == NO_LIMITS else read_policy(self.policy)


def check_new(folder: Path) -> None:
    """Refuse a folder that exists, before anybody types a password."""
    if os.path.lexists(folder):
        raise DeploymentError(
            f"{folder} exists already.",
            [
                "Choose another --folder for another project.",
                "To take a newer kit into use in it, say --renew.",
            ],
        )


def join(file: Path, password: str, folder: Path, *, now: datetime) -> CenterFolder:
    """Make a hospital's folder from its kit, with an identity of its own."""
    from fedcox.privacy.identity import Identity

    check_new(folder)
    kit = Kit.open(file, password, now=now)
    with new_private_folder(folder) as part:
        _use(kit, part)
        Identity.create().save(part / "identity.pem")
        for name in ("pending", "approved", "memory"):
            owners_folder(part / name)
    return CenterFolder.read(folder)


def renew(file: Path, password: str, folder: Path, *, now: datetime) -> CenterFolder:
    """Take a new kit's certificate into use; identity, memory and ledger stay as they are."""
    old = CenterFolder.read(folder)
    kit = Kit.open(file, password, now=now)
    if (kit.center, kit.project) != (old.name, old.project):
        raise DeploymentError(
            f"{folder} belongs to the center {old.name!r} of the project {old.project!r}.",
            [
                f"This kit is for the center {kit.center!r} of {kit.project!r}.",
                "For another project, join in another --folder.",
            ],
        )
    if not same_authority((old.flare / "startup" / ROOT).read_bytes(), kit.root.encode()):
        raise DeploymentError(
            "This kit is not of the authority that this center joined.",
            [
                "Ask the coordinator, by telephone, whether the kit is theirs.",
                "If they began anew, join with it in another --folder.",
            ],
        )
    _use(kit, old.path)
    return CenterFolder.read(folder)


def _use(kit: Kit, folder: Path) -> None:
    flare = folder / "flare"
    write_center_startup(
        flare,
        project=kit.project,
        center=kit.center,
        host=kit.host,
        port=kit.port,
        credentials=Credentials(kit.root.encode(), kit.certificate.encode(), kit.key.encode()),
    )
    write_center_rules(flare)
    write_private_json(
        folder / "center.json",
        {
            "version": _VERSION,
            "name": kit.center,
            "project": kit.project,
            "host": kit.host,
            "port": kit.port,
            "expires": kit.expires.isoformat(),
        },
    )


def _fields(content: dict[str, Any]) -> dict[str, Any]:
    if content["version"] != _VERSION:
        raise ValueError
    of = Participants(content["project"], content["host"], content["port"], (content["name"],))
    return {
        "name": content["name"],
        "project": of.project,
        "host": of.host,
        "port": of.port,
        "expires": date.fromisoformat(content["expires"]),
    }
