"""What an attack has to work with, and whether the patients it claims are right.

The setting is what the coordinator of one study sees and may ask; a claim is a patient's
covariates, and the outcome where the attack shows it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from time import monotonic
from typing import Protocol

import numpy as np
from scipy.spatial import KDTree

from fedcox.errors import InputError
from fedcox.evaluation.attacks.observed_sums import (
    LifeTable,
    ObservedAnswers,
    ObservedSource,
    Observer,
    sources,
)
from fedcox.federation.setting import Setting
from fedcox.study.fitted import FittedStudy
from fedcox.study.study import Study
from fedcox.survival.cohort import BoolArray, Cohort, FloatArray, IntArray

#: A covariate counts as found within this part of its joint spread.
TOLERANCE = 1e-2
#: Patients by whose absence a second study differs, one after the other.
_LEFT_OUT = 5


@dataclass(frozen=True, eq=False)
class Candidate:
    """One claim: covariates on the common scale, and the outcome where the attack shows it.

    `intervals` counts the fitted intervals in which the patient is at risk.
    """

    covariates: FloatArray  # (kept columns,)
    intervals: int | None = None
    event: bool | None = None


@dataclass(frozen=True, eq=False)
class TruePatients:
    """Everyone in the study, as an attacker would have to describe them."""

    covariates: FloatArray  # (patients, kept columns), on the common scale
    intervals: IntArray  # (patients,)
    event: BoolArray  # (patients,), in a fitted interval

    @classmethod
    def of(cls, cohorts: Sequence[Cohort], setting: Setting) -> TruePatients:
        parts = [_scaled(cohort, setting) for cohort in cohorts]
        risks = [
            setting.grid.at_risk(cohort.time, cohort.event, setting.reading)
            for cohort in cohorts
        ]
        within = [risk.within(setting.active) for risk in risks]
        return cls(
            np.concatenate(parts),
            np.concatenate([risk.intervals for risk in within]),
            np.concatenate([risk.event for risk in within]),
        )

    @property
    def number(self) -> int:
        return int(self.event.size)


def _scaled(cohort: Cohort, setting: Setting) -> FloatArray:
    scaled = np.empty((cohort.patients, setting.columns))
    setting.scaling.apply(cohort.covariates, out=scaled)
    return scaled


def matches(
    candidates: Iterable[Candidate], patients: TruePatients, tolerance: float = TOLERANCE
) -> IntArray:
    """The patients who are recovered: every covariate within `tolerance`, outcome right.

    A claim uses up the patient it describes, so saying the same twice counts once. Claims that
    say less come last.
    """
    alike: dict[tuple[bytes, int | None, bool | None], list[Candidate]] = {}
    for candidate in sorted(candidates, key=_unsure):
        if np.isfinite(candidate.covariates).all():
            claim_key = candidate.covariates.tobytes(), candidate.intervals, candidate.event
            alike.setdefault(claim_key, []).append(candidate)
    if not patients.covariates.size:
        return np.empty(0, dtype=np.int64)
    tree, free = KDTree(patients.covariates), np.ones(patients.number, dtype=np.bool_)
    for claims in alike.values():
        claim = claims[0]
        ball = tree.query_ball_point(claim.covariates, tolerance, p=np.inf)
        near = np.array(ball, dtype=np.int64)
        near = near[free[near] & _fits(claim, patients, near)]
        away = np.abs(patients.covariates[near] - claim.covariates).max(axis=1)
        free[near[np.argsort(away, kind="stable")][: len(claims)]] = False
    return np.flatnonzero(~free)


def _unsure(candidate: Candidate) -> int:
    """How much of the outcome a claim leaves open."""
    return (candidate.intervals is None) + (candidate.event is None)


def _fits(candidate: Candidate, patients: TruePatients, near: IntArray) -> BoolArray:
    """Which of the patients `near` have the outcome that is claimed."""
    fits = np.ones(near.size, dtype=np.bool_)
    if candidate.intervals is not None:
        fits &= patients.intervals[near] == candidate.intervals
    if candidate.event is not None:
        fits &= patients.event[near] == candidate.event
    return fits


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
class AttackSetting:
    """One study under one protection, from the coordinator's chair.

    `tables` are the life tables of every source. `begin` begins the study anew, with centers
    that have answered nothing yet; `release` gives the results of all that, without a patient.
    Each attack has so many `seconds`.
    """

    study: Study
    exchanges: Sequence[ObservedAnswers]
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
    def sources(self) -> dict[str, ObservedSource]:
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
    run: Callable[[AttackSetting], Iterator[Candidate]]
    aims_at: Callable[[AttackSetting], int] = lambda target: target.patients


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
