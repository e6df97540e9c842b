"""A training on the disk after every epoch, to go on after a crash with the same bits.

One safetensors file: the parameters, Adam's memory of earlier gradients, the losses so far, and
a fingerprint of everything they depend on. `engines/checkpoint.py` only looks alike: it keeps
every answer of every round, which of thousands of rounds with all weights would be too much.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from hashlib import sha256
from itertools import chain
from pathlib import Path
from types import ModuleType

import numpy as np

from fedcox.errors import InputError, needs_extra
from fedcox.federation.center import Center
from fedcox.federation.digest import digest
from fedcox.files.writing import whole_file
from fedcox.solvers.training import EpochLoss, TrainingState
from fedcox.survival.cohort import FloatArray

_VERSION = "fedcox-training-1"


def digest_of_slides(centers: Iterable[Center]) -> str:
    """Of the features of every slide of these centers, each read once."""
    hasher = sha256()
    for center in centers:
        bags = center.cohort.bags
        for slide in () if bags is None else chain.from_iterable(bags.slides):
            hasher.update(digest(slide.read()))
    return hasher.hexdigest()


@dataclass(frozen=True)
class TrainingCheckpoint:
    """The file, and the fingerprint of the training that it may belong to."""

    path: Path
    fingerprint: str

    def load(self) -> TrainingState | None:
        """What was saved last; None where there is no file."""
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise InputError(
                f"{self.path} cannot be read: {error.strerror or error}."
            ) from None
        fingerprint, state = _parsed(content, self.path)
        if fingerprint != self.fingerprint:
            raise InputError(
                f"{self.path} is the checkpoint of another training.",
                [
                    "Its plan, its patients or its version of fedcox differ. Name another file "
                    "to begin anew, or go on with the plan it was made by."
                ],
            )
        return state

    def save(self, state: TrainingState) -> None:
        """Write the file whole; whoever reads sees the old one or the new one."""
        save = _safetensors().save
        arrays = {name: np.array(part) for name, part in state.arrays.items()}
        told = {
            "version": _VERSION,
            "fingerprint": self.fingerprint,
            "epochs": json.dumps([asdict(epoch) for epoch in state.epochs]),
        }
        told["seal"] = _seal(arrays, told)
        with whole_file(self.path) as part:
            part.write_bytes(save(arrays, told))


def _parsed(content: bytes, path: Path) -> tuple[str, TrainingState]:
    """Fingerprint and state of a file that is as it was written."""
    load = _safetensors().load
    from safetensors import SafetensorError

    try:
        arrays: dict[str, FloatArray] = load(content)
        # The first eight bytes say how long the words are that come next.
        size = int.from_bytes(content[:8], "little")
        told: dict[str, str] = json.loads(content[8 : 8 + size])["__metadata__"]
        sealed = told.pop("seal") == _seal(arrays, told)
        epochs = tuple(EpochLoss(**epoch) for epoch in json.loads(told["epochs"]))
        fingerprint = told["fingerprint"]
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise _unusable(path) from error
    if not sealed:
        raise _unusable(path)
    return fingerprint, TrainingState(arrays, epochs)


def _unusable(path: Path) -> InputError:
    return InputError(
        f"{path} is no checkpoint of a training, or is damaged.",
        ["Name another file to begin anew."],
    )


def _seal(arrays: dict[str, FloatArray], told: dict[str, str]) -> str:
    """A disk that loses a bit would else give another number that looks right."""
    parts: list[object] = [part for name in sorted(told) for part in (name, told[name])]
    parts += [part for name in sorted(arrays) for part in (name, arrays[name])]
    return digest(parts).hex()


def _safetensors() -> ModuleType:
    try:
        import safetensors.numpy
    except ImportError as error:
        raise needs_extra("safetensors", "deep") from error
    return safetensors.numpy
