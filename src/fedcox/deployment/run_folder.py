"""What one run of a study keeps in the coordinator's folder."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedcox.errors import DeploymentError, InputError
from fedcox.files.followed import append_rows
from fedcox.files.locks import locked
from fedcox.files.writing import write_atomically

_IDENTITIES, _LEFT_OUT = "identities.json", "left_out.json"
_FOR_GOOD = (_IDENTITIES, _LEFT_OUT)


@dataclass(frozen=True)
class RunFolder:
    """The study as it runs, its progress, its finished rounds, and how it ended."""

    path: Path

    @property
    def study(self) -> Path:
        return self.path / "study.toml"

    @property
    def progress(self) -> Path:
        return self.path / "progress.jsonl"

    @property
    def checkpoint(self) -> Path:
        return self.path / "checkpoint"

    @property
    def result(self) -> Path:
        return self.path / "result"

    @property
    def error(self) -> Path:
        return self.path / "error.json"

    @property
    def settings(self) -> Path:
        return self.path / "settings.json"

    @property
    def stop(self) -> Path:
        return self.path / "stop"

    def tell(self, kind: str, **told: Any) -> None:
        """One line of progress, for whoever watches the run."""
        row = {"kind": kind, "at": time.time(), **told}
        append_rows(self.progress, [row], on_disk=False)

    def ask_to_stop(self) -> None:
        """Before the job is ended: centers whose processes end with it are not lost."""
        self.stop.touch()

    def fail(self, error: InputError) -> None:
        """Leave the reason why the run stopped."""
        record = {"subject": error.subject, "faults": list(error.faults)}
        write_atomically(self.error, json.dumps(record, ensure_ascii=False) + "\n")

    def failure(self) -> InputError | None:
        """Why the run stopped, if it left a reason."""
        if not self.error.exists():
            return None
        told = json.loads(self.error.read_text(encoding="utf-8"))
        return DeploymentError(told["subject"], told["faults"])

    def write_settings(self, settings: Mapping[str, Any]) -> None:
        """What the job's process needs to know besides the study."""
        write_atomically(self.settings, json.dumps(dict(settings)) + "\n")

    def read_settings(self) -> dict[str, Any]:
        told: dict[str, Any] = json.loads(self.settings.read_text(encoding="utf-8"))
        return told

    def identities(self) -> dict[str, str]:
        """Public identities of centers, as they were told in this run so far."""
        file = self.path / _IDENTITIES
        if not file.exists():
            return {}
        told: dict[str, str] = json.loads(file.read_text(encoding="utf-8"))
        return told

    def keep_identities(self, identities: Mapping[str, str]) -> None:
        """For when a center is away in a later job of the run."""
        write_atomically(self.path / _IDENTITIES, json.dumps(dict(identities)) + "\n")

    def left_out(self) -> tuple[str, ...]:
        """Centers without which masked sums of this run were opened."""
        file = self.path / _LEFT_OUT
        if not file.exists():
            return ()
        return tuple(json.loads(file.read_text(encoding="utf-8")))

    def leave_out(self, names: Iterable[str]) -> None:
        """Remember them: sums with and without a center would give it away."""
        known = sorted({*self.left_out(), *names})
        write_atomically(self.path / _LEFT_OUT, json.dumps(known) + "\n")

    def for_good(self) -> dict[str, str]:
        """What hospitals remember of the study, too, and no new run sets back; by file."""
        files = (self.path / name for name in _FOR_GOOD)
        return {file.name: file.read_text("utf-8") for file in files if file.exists()}

    def take_over(self, kept: Mapping[str, str]) -> None:
        """Go on from what an older run of the same study left."""
        for name, text in kept.items():
            write_atomically(self.path / name, text)

    @contextmanager
    def alone(self, patience: float) -> Iterator[None]:
        """One process at a time: that of a job that was broken off may still be ending."""
        with locked(self.path, patience=patience) as ours:
            if not ours:
                raise DeploymentError(
                    "An earlier job of this run is still at work.",
                    ["Wait until it has ended, or stop the server and start it again."],
                )
            yield
