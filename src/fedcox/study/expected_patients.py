"""Whether a study under noise plans with about the patients that there are, and their times.

Noise is chosen for the number that the study names. With half as many it is far too much, and
with twice as many patients epsilon bought less than it could. Nobody may count them exactly
for others, so it is looked at three times: by who holds all files, before anything is asked;
by a hospital, for its own file alone; and by the solver, in the noised life table.

In what unit times are recorded nobody may look up for others either: without `resolution` they
count as exact, and where all events are on few times that is wrong by far.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fedcox.errors import CohortError
from fedcox.solvers.private_newton import OFF_BY, wrong_number
from fedcox.study.study_tables import Noise

if TYPE_CHECKING:
    from fedcox.study.study import Study
    from fedcox.survival.cohort import Cohort, FloatArray

#: Of so few event times, with so many events each, a file is recorded in coarse units.
_FEW_STEPS, _CROWDED = 60, 5


def check_all(study: Study, cohorts: Sequence[Cohort]) -> None:
    """StudyError where the patients of all centers together are far from the plan."""
    noise, patients = study.privacy.noise, sum(cohort.patients for cohort in cohorts)
    if isinstance(noise, Noise) and abs(patients - noise.patients) > OFF_BY * noise.patients:
        raise wrong_number(noise.patients, f"{patients:,}")
    events = [cohort.time[cohort.event] for cohort in cohorts]
    _check_times(study, np.concatenate([np.empty(0), *events]), "the centers together")


def check_times(study: Study, cohort: Cohort, source: str) -> None:
    """CohortError where times that count as exact are recorded in few steps."""
    _check_times(study, cohort.time[cohort.event], source)


def _check_times(study: Study, times: FloatArray, source: str) -> None:
    if not isinstance(study.privacy.noise, Noise) or study.outcome.resolution is not None:
        return
    steps = np.unique(times).size
    if 0 < steps <= _FEW_STEPS and times.size >= _CROWDED * steps:
        raise CohortError(
            f"{source}: the events are on few times, and the study takes times for exact.",
            [
                "[outcome] resolution is missing: under noise nobody can look up the unit in "
                "which times are recorded. Say resolution = 1 for whole years, months or days, "
                "in whichever of them times are."
            ],
        )


def check_own(study: Study, patients: int, file: Path) -> None:
    """CohortError where one hospital has more patients than all together are to have.

    That it has fewer says nothing. Only that the file does not fit goes to the coordinator.
    """
    noise = study.privacy.noise
    if isinstance(noise, Noise) and patients > (1.0 + OFF_BY) * noise.patients:
        raise CohortError(
            f"{file}: these are more patients than the study plans with in all hospitals.",
            [
                f"[privacy.noise] patients: found {patients:,} in this file alone; the study "
                f"names {noise.patients:,}. Is it the right file? Else the study needs "
                "another number: tell its coordinator."
            ],
        )
