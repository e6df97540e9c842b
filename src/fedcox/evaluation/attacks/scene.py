"""What does an attack have to work with: messages of a fit, and a coordinator to ask with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from time import monotonic
from typing import Protocol

import numpy as np

from fedcox.errors import InputError
from fedcox.evaluation.attacks.candidate import Candidate
from fedcox.evaluation.attacks.looks import LifeTable, Source, sources
from fedcox.evaluation.attacks.observer import Exchange, Observer
from fedcox.federation.setting import Setting
from fedcox.study.fitted import FittedStudy
from fedcox.study.study import Study

#: Patients by whose absence a second study differs, one after the other.
_LEFT_OUT = 5


class Attacker(Enum):
    """Who could read patients out of a study."""

    COORDINATOR = "the coordinator"
    HOSPITALS = "all other hospitals, with the coordinator"
    READER = "a reader of the published results"


class Begin(Protocol):
    """Begin the study anew, as with one `patient` (by number) or one `center` left out."""

    def __call__(self, *, patient: int | None = None, center: str | None = None) -> Observer:
        """Centers that have answered nothing yet."""
        ...


@dataclass(frozen=True, eq=False)
class Scene:
    """One study under one protection, from the coordinator's chair.

    `tables` are the life tables of every source. `begin` begins the study anew, with centers
    that have answered nothing yet; `release` gives the results of all that, without a patient.
    Each attack has so many `seconds`.
    """

    study: Study
    exchanges: Sequence[Exchange]
    setting: Setting
    tables: Mapping[str, LifeTable]
    begin: Begin
    release: Callable[[int | None], FittedStudy]
    centers: tuple[str, ...]
    masked: bool
    noised: bool
    seconds: float
    seed: int = 0

    @property
    def sizes(self) -> dict[str, int]:
        """Patients of every source, in the order of the patients' numbers."""
        return {name: table.patients for name, table in self.tables.items()}

    @property
    def patients(self) -> int:
        return sum(self.sizes.values())

    @property
    def sources(self) -> dict[str, Source]:
        """What the fit's messages tell of every source."""
        return sources(self.exchanges, self.setting, self.tables)

    def rng(self) -> np.random.Generator:
        """For the starts of searches, and for patients drawn."""
        return np.random.default_rng(self.seed)

    def left_out(self) -> list[int]:
        """Numbers of the patients without whom the study is run again."""
        some = min(_LEFT_OUT, self.patients)
        return sorted(self.rng().choice(self.patients, some, replace=False).tolist())

    def deadline(self) -> Deadline:
        """When an attack that begins now has to end."""
        return Deadline(self.seconds)


@dataclass(frozen=True)
class Attack:
    """A way to read patients off what is sent, or off what is published.

    `how` says how it works. `by` is who could do it; an `active` one asks what no honest study
    asks: exact sums, whatever the study says. `run` gives claims as it finds them, until a
    center refuses or its time is over. `aims_at` counts the patients it could find at best,
    none where it has nothing to read.
    """

    name: str
    how: str
    by: Attacker
    active: bool
    run: Callable[[Scene], Iterator[Candidate]]
    aims_at: Callable[[Scene], int] = lambda scene: scene.patients


class TimeLimitError(InputError):
    """An attack was stopped; what it found before counts."""


class Deadline:
    """When an attack has to end."""

    def __init__(self, seconds: float) -> None:
        self._seconds, self._end = seconds, monotonic() + seconds

    def check(self) -> None:
        """Stop the attack if its time is over."""
        if monotonic() > self._end:
            raise TimeLimitError(f"stopped after {self._seconds:g} s")
