"""Check one hospital's file against the study, before anything is asked of it."""

from __future__ import annotations

from pathlib import Path

from fedcox.analysis.study import Study
from fedcox.data.cohort_file import read_table
from fedcox.data.encoding import LoadedCohort, cohort_from_frame
from fedcox.data.overview import CohortOverview, overview
from fedcox.survival.time_grid import TimeGrid


def check_file(study: Study, path: str | Path) -> CohortOverview:
    """Counts of a file that is right; all faults of one that is not, as a `CohortError`."""
    frame = read_table(path)
    loaded = cohort_from_frame(frame, study.schema, source=str(path))
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
