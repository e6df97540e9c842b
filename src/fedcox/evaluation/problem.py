"""Which patients an experiment is about, for each of its seeds.

A problem goes to worker processes as it is, so it is a small frozen dataclass of arrays and
numbers. A new kind is a subclass that says how to draw or fetch its patients.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from typing import Any

import numpy as np

from fedcox.data.synthetic import CensoringBound, Split, simulate_paper_cohort, split_cohort
from fedcox.evaluation.seeds import derived_generator
from fedcox.survival.cohort import Cohort


class AbstractProblem(ABC):
    """Patients in centers."""

    #: Whether every seed has patients of its own, so that runs are independent of each other.
    drawn_anew: bool

    @property
    @abstractmethod
    def centers(self) -> tuple[str, ...]:
        """The centers that have patients, in the order of names, the same for every seed."""

    @abstractmethod
    def cohorts(self, seed: int) -> dict[str, Cohort]:
        """The patients of every center, numbered 0, 1, … over all of them."""

    @abstractmethod
    def fingerprint(self) -> dict[str, Any]:
        """What this problem is called and was made with, ready for JSON."""


@dataclass(frozen=True, eq=False)
class FixedPatients(AbstractProblem):
    """The same patients for every seed; centers in the order of their names."""

    parts: tuple[tuple[str, Cohort], ...]

    drawn_anew = False

    @classmethod
    def of(cls, cohorts: Mapping[str, Cohort]) -> FixedPatients:
        """These patients, numbered through in the order of the numbers that they have."""
        return cls(tuple(sorted(renumbered(cohorts).items())))

    @property
    def centers(self) -> tuple[str, ...]:
        return tuple(name for name, cohort in self.parts if cohort.patients)

    def cohorts(self, seed: int) -> dict[str, Cohort]:
        return dict(self.parts)

    def fingerprint(self) -> dict[str, Any]:
        return {
            "kind": "fixed patients",
            "centers": {name: cohort.patients for name, cohort in self.parts},
        }


@dataclass(frozen=True)
class PaperPatients(AbstractProblem):
    """The paper's synthetic patients (section 6.1), drawn anew for every seed.

    Two problems that differ in `split` alone have the same patients in other centers.
    """

    patients: int = 5000
    columns: int = 200
    hospitals: int = 5
    split: Split = "uniform"
    censoring_bound: CensoringBound = "patient"
    concentration: float = 0.5

    drawn_anew = True

    @property
    def centers(self) -> tuple[str, ...]:
        digits = len(str(self.hospitals))
        return tuple(f"center {n:0{digits}d}" for n in range(1, self.hospitals + 1))

    def cohorts(self, seed: int) -> dict[str, Cohort]:
        drawn = simulate_paper_cohort(
            self.patients,
            self.columns,
            rng=derived_generator(seed, "patients"),
            censoring_bound=self.censoring_bound,
        )
        center = split_cohort(
            drawn.cohort,
            self.hospitals,
            self.split,
            rng=derived_generator(seed, "split"),
            concentration=self.concentration,
        )
        return {
            name: drawn.cohort.take(center == number)
            for number, name in enumerate(self.centers)
        }

    def fingerprint(self) -> dict[str, Any]:
        return {"kind": "paper's synthetic patients", **asdict(self)}


def renumbered(cohorts: Mapping[str, Cohort]) -> dict[str, Cohort]:
    """The same patients numbered 0, 1, … in the order of the numbers that they have.

    So a batch drawn over patients of one table does not depend on the centers they lie in.
    Patients of several tables may share numbers; those of the earlier center come first.
    """
    names = sorted(cohorts)
    numbers = np.concatenate([cohorts[name].number for name in names])
    ranks = np.empty_like(numbers)
    ranks[np.argsort(numbers, kind="stable")] = np.arange(numbers.size)
    ends = np.cumsum([cohorts[name].patients for name in names])
    parts = np.split(ranks, ends[:-1])
    return {
        name: replace(cohorts[name], number=part)
        for name, part in zip(names, parts, strict=True)
    }


def arrays_hash(cohorts: Mapping[str, Cohort]) -> str:
    """A hash of every number of every patient; tells two sets of data apart, shows neither."""
    digest = sha256()
    for name in sorted(cohorts):
        cohort = cohorts[name]
        digest.update(repr((name, cohort.patients, cohort.columns)).encode())
        for values in (cohort.covariates, cohort.time):
            digest.update(values.astype("<f8").tobytes())
        digest.update(cohort.event.tobytes())
        digest.update(cohort.number.astype("<i8").tobytes())
    return digest.hexdigest()
