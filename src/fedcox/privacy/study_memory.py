"""What does a hospital remember of a study? On the disk, so that a restart forgets nothing.

Every job of a coordinator may be a new process at the hospital. What policies, noise and secure
sums have to remember is in one file of the study's own folder, and there before a reply leaves.
The file is replaced whole, and ends with its hash: a computer that stops at any moment
leaves the old file or the new one, and a damaged one is refused. It is neither repaired nor
begun anew; who deletes the folder on purpose is not stopped.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import secrets
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import RLock
from types import TracebackType
from typing import Any
from weakref import finalize

import numpy as np

from fedcox.errors import BusyError, ChangedError, RefusedError
from fedcox.files.locks import take_lock
from fedcox.files.writing import open_folder, replace_file, sync_folder
from fedcox.privacy.noise import GaussianRelease
from fedcox.survival.cohort import Cohort, FloatArray

_VERSION = 3
_FILE = "study.json"
#: A file of this program is far smaller; what is larger is not read.
_LARGEST = 1 << 30


@dataclass(frozen=True)
class Right:
    """A number of noised sums that is paid for under this name, and how many have left."""

    name: str
    used: int = 0


@dataclass(frozen=True, eq=False)
class LastReply:
    """A noised reply that left, with the fingerprint of its query."""

    query: bytes
    reply: FloatArray


@dataclass(frozen=True, eq=False)
class Noised:
    """Rights by what they are for, and the last replies under them."""

    rights: Mapping[GaussianRelease, Right] = field(default_factory=dict)
    last: tuple[LastReply, ...] = ()


@dataclass(frozen=True, eq=False)
class Remembered:
    """All of it.

    `cohort` is the fingerprint of the patients, `mark` a random word for them that may be
    known: another word, other patients. `answered` is how many questions the gate let through.
    `centers` are those that no secure sum and no set-up of the study was without; None before
    the first. `grids` are fingerprints of the grids that questions were about, by their
    kind and the names of the centers of the sums.
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
        return {
            "version": _VERSION,
            "cohort": self.cohort,
            "mark": self.mark,
            "answered": self.answered,
            "rights": [
                {"release": vars(release), **vars(right)}
                for release, right in self.noised.rights.items()
            ],
            "last": [[each.query.hex(), _text(each.reply)] for each in self.noised.last],
            "centers": None if self.centers is None else sorted(self.centers),
            "grids": dict(self.grids),
        }

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Remembered:
        """What `to_json` gave; anything else is an error of Python's own."""
        if content["version"] != _VERSION:
            raise ValueError("This is the memory of another version.")
        centers = content["centers"]
        return cls(
            content["cohort"],
            int(content["answered"]),
            Noised(
                {
                    GaussianRelease(**row["release"]): Right(row["name"], row["used"])
                    for row in content["rights"]
                },
                tuple(
                    LastReply(bytes.fromhex(query), _vector(reply))
                    for query, reply in content["last"]
                ),
            ),
            None if centers is None else frozenset(centers),
            content["mark"],
            {str(names): str(grid) for names, grid in content["grids"].items()},
        )


def _text(array: FloatArray) -> str:
    return base64.b64encode(np.ascontiguousarray(array, dtype="<f8").tobytes()).decode()


def _vector(text: str) -> FloatArray:
    raw = base64.b64decode(text, validate=True)
    return np.frombuffer(raw, dtype="<f8").astype(np.float64)


class StudyMemory:
    """What one hospital remembers of one study, in `folder`.

    There is one at a time: while this one is open a second is refused, in this process or
    another. It closes with the process, however that ends.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self._lock = RLock()
        try:
            if not os.path.lexists(self.folder):
                _create(self.folder)
            handle = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            raise self._unusable(error) from error
        self._handle = handle
        self._closed = finalize(self, os.close, handle)
        try:
            self._reserve_folder()
            self._now = self._read()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let another process go on; nothing is written here any more."""
        self._closed()

    def __enter__(self) -> StudyMemory:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def now(self) -> Remembered:
        """All that is remembered."""
        return self._now

    def keep(
        self,
        *,
        cohort: str | None = None,
        answered: int | None = None,
        noised: Noised | None = None,
        centers: frozenset[str] | None = None,
        mark: str | None = None,
        grids: Mapping[str, str] | None = None,
    ) -> None:
        """Put what is given in place of the old; it is on the disk when this returns."""
        with self._lock:
            if not self._closed.alive:
                raise self._damaged("It was closed before.")
            now = self._now
            after = Remembered(
                now.cohort if cohort is None else cohort,
                now.answered if answered is None else answered,
                now.noised if noised is None else noised,
                now.centers if centers is None else centers,
                now.mark if mark is None else mark,
                now.grids if grids is None else grids,
            )
            try:
                _write(self._handle, after)
            except OSError as error:
                raise self._unusable(error) from error
            self._now = after

    def bind(self, cohort: Cohort) -> None:
        """Say which patients the answers are about; refuse others after the first answer.

        The same sum over other patients, less the first one, would be those who are new.
        """
        fingerprint = fingerprint_of(cohort)
        with self._lock:
            if self._now.cohort == fingerprint:
                return
            if self._now.cohort is not None and self._now.begun:
                raise ChangedError(
                    "The hospital's patients have changed since the study was first answered.",
                    [
                        "Sums before and after, subtracted, would be the patients who changed.",
                        "Use the file as it was, in the same order; or have the coordinator "
                        f"ask for a study of a new name; or delete {self.folder} on purpose, "
                        "and all that was answered no longer counts.",
                    ],
                )
            self.keep(cohort=fingerprint, mark=secrets.token_hex(16))

    def _reserve_folder(self) -> None:
        try:
            ours = take_lock(self._handle)
        except OSError as error:
            raise self._unusable(error) from error
        if not ours:
            raise BusyError(
                "This study is being answered already.",
                [
                    f"Another process of this center uses {self.folder}. Wait until its job "
                    "has ended, or end it."
                ],
            )

    def _read(self) -> Remembered:
        try:
            file = os.open(_FILE, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=self._handle)
            with os.fdopen(file, "rb") as stream:
                content = stream.read(_LARGEST)
        except FileNotFoundError:
            raise self._damaged(f"Its file {_FILE} is missing.") from None
        except OSError as error:
            raise self._damaged(f"{_FILE} cannot be read: {error.strerror}.") from error
        body, _, seal = content[:-1].rpartition(b"\n")
        if content != _sealed(body) or seal != _hash(body):
            raise self._damaged(f"{_FILE} is not as this program wrote it.")
        try:
            return Remembered.from_json(json.loads(body))
        except (KeyError, TypeError, ValueError) as error:
            raise self._damaged(f"{_FILE} is of another version of fedcox.") from error

    def _damaged(self, what: str) -> RefusedError:
        return RefusedError(
            "What this study was answered before cannot be told.",
            [
                f"The folder {self.folder} cannot be trusted. {what}",
                "Nothing is answered until the hospital has restored it from a copy made after "
                "the last answer, or deleted the folder on purpose, by which all counts begin "
                "anew.",
            ],
        )

    def _unusable(self, error: OSError) -> RefusedError:
        return RefusedError(
            "What this study is answered cannot be written down, so nothing is answered.",
            [f"{self.folder}: {error.strerror or error}. Give the center room to write."],
        )


def fingerprint_of(cohort: Cohort) -> str:
    """Of every value of every patient in their order, as SHA-256."""
    hasher = hashlib.sha256(repr(cohort.covariates.shape).encode())
    for part in (cohort.covariates.data, cohort.time.data, cohort.event.data):
        hasher.update(part)
    return hasher.hexdigest()


def _create(folder: Path) -> None:
    """Make the folder with its first file in it, both at once: a folder without is damaged."""
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        with open_folder(part) as handle:
            _write(handle, Remembered())
        try:
            part.rename(folder)
        except OSError:
            if not folder.is_dir():  # else another process was quicker
                raise
        sync_folder(folder.parent)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _write(folder: int, content: Remembered) -> None:
    """Replace the file in an open folder, and wait until that is on the disk."""
    body = json.dumps(content.to_json(), allow_nan=False, sort_keys=True).encode()
    replace_file(folder, _FILE, _sealed(body))


def _sealed(body: bytes) -> bytes:
    return body + b"\n" + _hash(body) + b"\n"


def _hash(body: bytes) -> bytes:
    return hashlib.sha256(body).hexdigest().encode()
