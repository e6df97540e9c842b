"""Check one hospital's file against the study, before anything is asked of it."""

from __future__ import annotations

from pathlib import Path

from fedcox.analysis.admission import policy_faults, read_policy
from fedcox.analysis.study import Study
from fedcox.data.cohort_file import read_table
from fedcox.data.encoding import LoadedCohort, cohort_from_frame
from fedcox.data.overview import CohortOverview, overview
from fedcox.errors import RefusedError
from fedcox.survival.time_grid import TimeGrid


def check_file(study: Study, path: str | Path, policy: str | None = None) -> CohortOverview:
    """Counts of a file that is right; all faults of one that is not, as a `CohortError`.

    With the hospital's `policy`, a file or the word default, also what that is known to
    refuse, as a `RefusedError`.
    """
    limits = None if policy is None else read_policy(policy)
    frame = read_table(path)
    loaded = cohort_from_frame(frame, study.schema, source=str(path))
    faults = [] if limits is None else policy_faults(study, limits, loaded.cohort)
    if faults:
        raise RefusedError(f"{policy}: this policy does not allow the study.", faults)
    return overview(frame, study.schema, loaded, _grid(study, loaded))


def _grid(study: Study, loaded: LoadedCohort) -> TimeGrid | None:
    """The study's intervals, as far as this hospital alone can know them.

    With `times = "events"` an interval would be one patient's event: there is nothing to show.
    """
    if study.grid.width is None:
        return None
    last = float(loaded.cohort.time.max())
    horizon = study.grid.horizon or max(last, study.grid.width)
    return TimeGrid.regular(study.grid.width, horizon)
