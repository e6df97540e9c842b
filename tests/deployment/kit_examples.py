"""A coordinator with three centers, made once, and copied by whoever changes it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from fedcox.deployment.coordinator_folder import CoordinatorFolder, make_folder
from fedcox.deployment.kit import Participants

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
CENTERS = ("A", "B-2", "C_3")


@dataclass(frozen=True)
class Made:
    """A coordinator's folder with the passwords that were shown."""

    folder: CoordinatorFolder
    passwords: dict[str, str]

    def kit(self, center: str) -> Path:
        return self.folder.kits / f"{center}.kit"


def make(place: Path, *, centers: tuple[str, ...] = CENTERS) -> Made:
    participants = Participants("lung", "127.0.0.1", 18102, centers)
    passwords = make_folder(place, participants, days=30, now=NOW)
    return Made(CoordinatorFolder.read(place), passwords)
