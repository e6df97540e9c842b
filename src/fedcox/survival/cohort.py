"""The patients of one center, as three aligned arrays that passed every check."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fedcox.errors import CohortError
from fedcox.survival.threads import in_order, parts

if TYPE_CHECKING:
    from fedcox.survival.bags import Bags

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Cohort:
    """Covariates, follow-up time and event of each patient; checked once, then trusted.

    covariates  (patients, columns) numbers; NaN stands for a missing value
    time        (patients,) follow-up, 0 or more, in one unit of time for the whole study
    event       (patients,) whether the event happened then; else the patient was censored
    number      (patients,) numbers in the whole study, 0, 1, … if not given; they make batches
                drawn over all patients the same however these are split over centers
    bags        the patients' slides (`fedcox.Bags`), where they have any

    The arrays are read-only from then on; `totals` are the columns' sums. A cohort may be
    empty. Most people have a table, and let `fedcox.InProcess.from_frame` make the cohorts.

    >>> import fedcox
    >>> cohort = fedcox.Cohort([[63.0], [48.0], [71.0]], [412, 1800, 95], [True, False, True])
    >>> cohort.patients, cohort.columns
    (3, 1)
    >>> cohort.take(cohort.event).time.tolist()
    [412.0, 95.0]

    Next: `fedcox.InProcess.from_cohorts({"A": cohort, …})`, one cohort for each center.
    """

    covariates: FloatArray
    time: FloatArray
    event: BoolArray
    number: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    bags: Bags | None = None
    totals: FloatArray = field(init=False)  # column sums, NaN where a value is missing

    def __post_init__(self) -> None:
        covariates = np.ascontiguousarray(self.covariates, dtype=np.float64)
        time = np.ascontiguousarray(self.time, dtype=np.float64)
        event = np.ascontiguousarray(self.event, dtype=np.bool_)
        number = np.ascontiguousarray(self.number, dtype=np.int64)
        if number.size == 0:
            number = np.arange(time.size, dtype=np.int64)
        totals = column_sums(covariates) if covariates.ndim == 2 else np.empty(0)
        faults = _faults(covariates, time, event, number, totals)
        if self.bags is not None and len(self.bags) != time.size:
            faults.append(
                f"There are slides of {len(self.bags)} patients, and {time.size} patients."
            )
        if faults:
            raise CohortError("These arrays are not a cohort.", faults)
        for name, value in zip(
            ("covariates", "time", "event", "number", "totals"),
            (covariates, time, event, number, totals),
            strict=True,
        ):
            view = value.view()  # the caller's own array stays as writable as it was
            view.flags.writeable = False
            object.__setattr__(self, name, view)

    @cached_property
    def complete(self) -> bool:
        """Whether no covariate is missing."""
        return not np.isnan(self.totals).any()

    @property
    def patients(self) -> int:
        """How many there are."""
        return int(self.time.size)

    @property
    def columns(self) -> int:
        """How many covariates each patient has."""
        return int(self.covariates.shape[1])

    def take(self, patients: BoolArray | IntArray) -> Cohort:
        """Some patients, under the numbers they have."""
        return Cohort(
            self.covariates[patients],
            self.time[patients],
            self.event[patients],
            self.number[patients],
            None if self.bags is None else self.bags.take(patients),
        )

    @classmethod
    def joined(cls, cohorts: Sequence[Cohort]) -> Cohort:
        """The patients of several cohorts, one after the other, under their numbers."""
        from fedcox.survival.bags import Bags

        bags = [cohort.bags for cohort in cohorts if cohort.bags is not None]
        return cls(
            np.concatenate([cohort.covariates for cohort in cohorts]),
            np.concatenate([cohort.time for cohort in cohorts]),
            np.concatenate([cohort.event for cohort in cohorts]),
            np.concatenate([cohort.number for cohort in cohorts]),
            Bags.joined(bags) if bags else None,
        )


@dataclass(frozen=True, eq=False)
class NumberedPatients:
    """Patients to be drawn by their numbers in the study.

    known   (patients,) their numbers, in the order they stand in
    """

    known: IntArray

    @cached_property
    def _by_number(self) -> IntArray:
        return np.argsort(self.known)

    def drawn(self, numbers: IntArray) -> IntArray:
        """Where those with these numbers stand, as often as drawn; others are left out."""
        first = np.searchsorted(self.known, numbers, sorter=self._by_number)
        inside = first < self.known.size
        places = self._by_number[first[inside]]
        return np.sort(places[self.known[places] == numbers[inside]])


def column_sums(covariates: FloatArray) -> FloatArray:
    """Of each column, NaN where a value is missing."""

    def sums(part: slice) -> FloatArray:
        # Half the time of `sum`; and `dot`, unlike `@`, lets other threads go on.
        return np.asarray(np.dot(np.ones(part.stop - part.start), covariates[part]))

    cut = parts(len(covariates), covariates[:1].size)
    return np.asarray(sum(in_order(sums, cut)))


def _faults(
    covariates: FloatArray,
    time: FloatArray,
    event: BoolArray,
    number: IntArray,
    totals: FloatArray,
) -> list[str]:
    if covariates.ndim != 2 or time.ndim != 1 or event.ndim != 1 or number.ndim != 1:
        return ["Covariates need two dimensions (patients, columns); time and event one."]
    if not covariates.shape[0] == time.size == event.size == number.size:
        return [
            f"Covariates, time, event and number describe {covariates.shape[0]}, {time.size}, "
            f"{event.size} and {number.size} patients; they must agree."
        ]
    faults = []
    # Column sums are far cheaper than a test of every cell, and not finite exactly when needed.
    if not np.isfinite(totals).all():
        infinite = int(np.isinf(covariates).any(axis=1).sum())
        if infinite:
            faults.append(f"{infinite} patient(s) have an infinite covariate.")
    if not np.isfinite(time).all():
        faults.append(f"{int((~np.isfinite(time)).sum())} patient(s) have no finite time.")
    elif time.size and time.min() < 0:
        faults.append(f"{int((time < 0).sum())} patient(s) have a negative time.")
    return faults
