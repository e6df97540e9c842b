"""Has the hospital's data manager approved this study? One code, and files of two processes.

The code stands for the study file, who takes part, and the keys by which they know each other.
Hospitals can compare it over the telephone: where two see the same code they were shown the
same study and the same keys.

The job's process writes down what a study would ask; the data manager's answer is a file beside
it. A study that was approved stays so until the data manager declines it, or deletes that file.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path

from fedcox.errors import DeploymentError, InputError
from fedcox.files.writing import write_atomically
from fedcox.study.study import Study

_CODE = re.compile(r"[0-9a-f]{4}(-[0-9a-f]{4}){7}")


def study_code(study: Study, centers: Sequence[str], identities: Mapping[str, str]) -> str:
    """128 bits in eight groups of four digits."""
    content = json.dumps([study.to_toml(), sorted(centers), sorted(identities.items())])
    digits = hashlib.sha256(b"fedcox study code\n" + content.encode()).hexdigest()[:32]
    return "-".join(digits[start : start + 4] for start in range(0, 32, 4))


def schema_digest(study: Study) -> bytes:
    """How this version of fedcox reads the study's columns: names, order, ranges, levels."""
    return hashlib.sha256(repr(study.schema).encode()).digest()


def read_code(text: str) -> str:
    """A code as somebody typed it."""
    code = text.strip().lower()
    if not _CODE.fullmatch(code):
        raise InputError(
            f"{text!r} is not the code of a study.",
            ["It has eight groups of four digits, 0 to 9 and a to f, joined by dashes."],
        )
    return code


@dataclass(frozen=True)
class Request:
    """A study that waits for the data manager's word."""

    code: str
    name: str
    study: str  # the study file's text
    centers: tuple[str, ...]
    fingerprints: dict[str, str]
    received: str


class Approvals:
    """The studies that were shown, approved and declined, in a center's folder."""

    def __init__(self, pending: Path, approved: Path) -> None:
        self._pending, self._approved = pending, approved

    def ask(self, request: Request) -> None:
        """Put a study where the data manager sees it."""
        self._pending.mkdir(mode=0o700, parents=True, exist_ok=True)
        text = json.dumps(asdict(request), indent=1, ensure_ascii=False)
        write_atomically(self._pending / f"{request.code}.json", text + "\n")

    def waiting(self) -> list[Request]:
        """What nobody has decided about, oldest first."""
        undecided = [
            request for request in self._requests() if self.decision(request.code) is None
        ]
        return sorted(undecided, key=lambda request: request.received)

    def decision(self, code: str) -> bool | None:
        """Approved, declined, or nobody has said."""
        if (self._approved / f"{code}.approved").exists():
            return True
        return False if (self._approved / f"{code}.declined").exists() else None

    def decide(self, code: str, *, approve: bool, unseen: bool = False) -> None:
        """The data manager's word; the latest counts.

        Yes is for a study that was shown here, unless it is meant for one `unseen`: else a
        mistyped code would be an approval that nobody knows of.
        """
        if approve and not unseen and self.find(code) is None:
            raise never_shown(code)
        self._approved.mkdir(mode=0o700, parents=True, exist_ok=True)
        yes, no = (self._approved / f"{code}.{word}" for word in ("approved", "declined"))
        given, other = (yes, no) if approve else (no, yes)
        other.unlink(missing_ok=True)
        write_atomically(
            given, datetime.now().astimezone().isoformat(timespec="seconds") + "\n"
        )

    def find(self, code: str) -> Request | None:
        """A study that was shown, by its code."""
        return next((each for each in self._requests() if each.code == code), None)

    def _requests(self) -> Iterator[Request]:
        for file in sorted(self._pending.glob("*.json")):
            try:
                content = json.loads(file.read_text(encoding="utf-8"))
                yield Request(**{**content, "centers": tuple(content["centers"])})
            except (ValueError, TypeError, KeyError) as error:
                raise InputError(
                    f"{file} cannot be read.", ["Delete it; the study is shown again."]
                ) from error


def never_shown(code: str) -> DeploymentError:
    """A code that stands for no study of this center: mistyped, or not here yet."""
    return DeploymentError(
        f"No study of the code {code} was shown here.",
        [
            "Compare it with those that wait: fedcox center approve.",
            "For unattended use say --unseen: it approves what nobody here has read.",
        ],
    )
