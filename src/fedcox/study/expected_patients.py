"""Does a study under noise plan with about as many patients as there are.

Noise is chosen for the number that the study names. With half as many it is far too much, and
with twice as many patients epsilon bought less than it could. Nobody may count them exactly
for others, so it is looked at three times: by who holds all files, before anything is asked;
by a hospital, for its own file alone; and by the solver, in the noised life table.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from fedcox.errors import CohortError
from fedcox.solvers.private_newton import OFF_BY, wrong_number
from fedcox.study.study_tables import Noise

if TYPE_CHECKING:
    from fedcox.study.study import Study


def check_all(study: Study, patients: int) -> None:
    """StudyError where the patients of all centers together are far from the plan."""
    noise = study.privacy.noise
    if isinstance(noise, Noise) and abs(patients - noise.patients) > OFF_BY * noise.patients:
        raise wrong_number(noise.patients, f"{patients:,}")


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
