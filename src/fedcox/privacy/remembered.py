"""What does a hospital remember of a study? Records that can be written down and read again."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from fedcox.privacy.release import GaussianRelease
from fedcox.survival.cohort import FloatArray

_VERSION = 2


@dataclass(frozen=True)
class Right:
    """A number of noised sums that is paid for under this name, and how many have left."""

    name: str
    used: int = 0


@dataclass(frozen=True, eq=False)
class LastReply:
    """The noised reply that left last, with the fingerprint of its question."""

    question: bytes
    reply: FloatArray


@dataclass(frozen=True, eq=False)
class Noised:
    """Rights by what they are for, and the last reply under them."""

    rights: Mapping[GaussianRelease, Right] = field(default_factory=dict)
    last: LastReply | None = None


@dataclass(frozen=True, eq=False)
class Remembered:
    """All of it.

    `cohort` is the fingerprint of the patients, `mark` a random word for them that may be
    known: another word, other patients. `answered` is how many questions the gate let through.
    `centers` are those that no secure sum and no set-up of the study was without; None before
    the first. `grids` are fingerprints of the grids on which the model was asked about, by the
    names of the centers of the sums.
    """

    cohort: str | None = None
    answered: int = 0
    noised: Noised = field(default_factory=Noised)
    centers: frozenset[str] | None = None
    mark: str = ""
    grids: Mapping[str, str] = field(default_factory=dict)

    @property
    def begun(self) -> bool:
        """Whether anything about the patients may have left."""
        return bool(self.answered or self.noised.rights or self.centers is not None)

    def to_json(self) -> dict[str, Any]:
        """As JSON can hold it; arrays by their bytes, so that every number is kept as it is."""
        last = self.noised.last
        return {
            "version": _VERSION,
            "cohort": self.cohort,
            "mark": self.mark,
            "answered": self.answered,
            "rights": [
                {"release": asdict(release), **asdict(right)}
                for release, right in self.noised.rights.items()
            ],
            "last": None if last is None else [last.question.hex(), _text(last.reply)],
            "centers": None if self.centers is None else sorted(self.centers),
            "grids": dict(self.grids),
        }

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> Remembered:
        """What `to_json` gave; anything else is an error of Python's own."""
        if told["version"] != _VERSION:
            raise ValueError("This is the memory of another version.")
        last, centers = told["last"], told["centers"]
        return cls(
            told["cohort"],
            int(told["answered"]),
            Noised(
                {
                    GaussianRelease(**row["release"]): Right(row["name"], row["used"])
                    for row in told["rights"]
                },
                None if last is None else LastReply(bytes.fromhex(last[0]), _vector(last[1])),
            ),
            None if centers is None else frozenset(centers),
            told["mark"],
            {str(names): str(grid) for names, grid in told["grids"].items()},
        )


def _text(array: FloatArray) -> str:
    return base64.b64encode(np.ascontiguousarray(array, dtype="<f8").tobytes()).decode()


def _vector(text: str) -> FloatArray:
    raw = base64.b64decode(text, validate=True)
    return np.frombuffer(raw, dtype="<f8").astype(np.float64)
