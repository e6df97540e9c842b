"""What does a hospital remember of a study? Records that can be written down and read again."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from fedcox.privacy.limits import Past
from fedcox.privacy.release import GaussianRelease
from fedcox.survival.cohort import FloatArray

_VERSION = 1


@dataclass(frozen=True, eq=False)
class Answered:
    """What a gate let through and what it refused.

    `admitted` are fingerprints of questions, each with those it was summed over. `grids` are
    the edges on which each set of centers was answered first.
    """

    past: Past = field(default_factory=Past)
    refusals: int = 0
    admitted: frozenset[bytes] = frozenset()
    grids: Mapping[frozenset[str], FloatArray] = field(default_factory=dict)


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
    told: another word, other patients. `centers` are those that no secure sum and no
    set-up of the study was without; None before the first.
    """

    cohort: str | None = None
    answered: Answered = field(default_factory=Answered)
    noised: Noised = field(default_factory=Noised)
    centers: frozenset[str] | None = None
    mark: str = ""

    @property
    def begun(self) -> bool:
        """Whether anything about the patients may have left."""
        answered = self.answered.admitted or self.answered.past.rounds
        return bool(answered or self.noised.rights or self.centers is not None)

    def to_json(self) -> dict[str, Any]:
        """As JSON can hold it; arrays by their bytes, so that every number is kept as it is."""
        answered, past, last = self.answered, self.answered.past, self.noised.last
        return {
            "version": _VERSION,
            "cohort": self.cohort,
            "mark": self.mark,
            "rounds": past.rounds,
            "blocks": past.blocks,
            "alpha": _text(past.alpha),
            "beta": _text(past.beta),
            "edges": _text(past.edges),
            "refusals": answered.refusals,
            "admitted": sorted(question.hex() for question in answered.admitted),
            "grids": [[sorted(names), _text(at)] for names, at in answered.grids.items()],
            "rights": [
                {"release": asdict(release), **asdict(right)}
                for release, right in self.noised.rights.items()
            ],
            "last": None if last is None else [last.question.hex(), _text(last.reply)],
            "centers": None if self.centers is None else sorted(self.centers),
        }

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> Remembered:
        """What `to_json` gave; anything else is an error of Python's own."""
        if told["version"] != _VERSION:
            raise ValueError("This is the memory of another version.")
        places = [_array(told[key]) for key in ("alpha", "beta", "edges")]
        last, centers = told["last"], told["centers"]
        return cls(
            told["cohort"],
            Answered(
                Past(told["rounds"], told["blocks"], *places),
                told["refusals"],
                frozenset(map(bytes.fromhex, told["admitted"])),
                {frozenset(names): _vector(edges) for names, edges in told["grids"]},
            ),
            Noised(
                {
                    GaussianRelease(**row["release"]): Right(row["name"], row["used"])
                    for row in told["rights"]
                },
                None if last is None else LastReply(bytes.fromhex(last[0]), _vector(last[1])),
            ),
            None if centers is None else frozenset(centers),
            told["mark"],
        )


def _text(array: FloatArray | None) -> str | None:
    if array is None:
        return None
    return base64.b64encode(np.ascontiguousarray(array, dtype="<f8").tobytes()).decode()


def _array(text: str | None) -> FloatArray | None:
    return None if text is None else _vector(text)


def _vector(text: str) -> FloatArray:
    raw = base64.b64decode(text, validate=True)
    return np.frombuffer(raw, dtype="<f8").astype(np.float64)
