"""Patients whom an attacker claims to have found, and how many of the claims are right."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.spatial import KDTree

from fedcox.federation.setting import Setting
from fedcox.survival.cohort import BoolArray, Cohort, FloatArray, IntArray

#: A covariate counts as found within this part of its joint spread.
TOLERANCE = 1e-2


@dataclass(frozen=True, eq=False)
class Candidate:
    """One claim: covariates on the common scale, and the outcome where the attack shows it.

    `intervals` counts the fitted intervals in which the patient is at risk.
    """

    covariates: FloatArray  # (kept columns,)
    intervals: int | None = None
    event: bool | None = None


@dataclass(frozen=True, eq=False)
class Patients:
    """Everyone in the study, as an attacker would have to describe them."""

    covariates: FloatArray  # (patients, kept columns), on the common scale
    intervals: IntArray  # (patients,)
    event: BoolArray  # (patients,), in a fitted interval

    @classmethod
    def of(cls, cohorts: Sequence[Cohort], setting: Setting) -> Patients:
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
    candidates: Iterable[Candidate], patients: Patients, tolerance: float = TOLERANCE
) -> IntArray:
    """The patients who are recovered: every covariate within `tolerance`, outcome right.

    A claim uses up the patient it describes, so saying the same twice counts once. Claims that
    say less come last.
    """
    alike: dict[tuple[bytes, int | None, bool | None], list[Candidate]] = {}
    for candidate in sorted(candidates, key=_unsure):
        if np.isfinite(candidate.covariates).all():
            said = candidate.covariates.tobytes(), candidate.intervals, candidate.event
            alike.setdefault(said, []).append(candidate)
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


def _fits(candidate: Candidate, patients: Patients, near: IntArray) -> BoolArray:
    """Which of the patients `near` have the outcome that is claimed."""
    fits = np.ones(near.size, dtype=np.bool_)
    if candidate.intervals is not None:
        fits &= patients.intervals[near] == candidate.intervals
    if candidate.event is not None:
        fits &= patients.event[near] == candidate.event
    return fits
