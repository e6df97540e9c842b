"""Check one hospital's file against the study, before anything is asked of it."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from fedcox.data.cohort_file import read_table
from fedcox.data.encoding import LoadedCohort, cohort_from_frame
from fedcox.data.overview import CohortOverview, overview
from fedcox.data.wording import SMALL_CELL
from fedcox.errors import RefusedError
from fedcox.study.admission import policy_faults, read_policy
from fedcox.study.expected_patients import check_own, check_times
from fedcox.study.study import Study
from fedcox.survival.event_pieces import named_bounds, nice_step
from fedcox.survival.time_grid import AnyGrid, Pieces, TimeGrid

#: Round stretches of time that events are counted in, where the study names no intervals.
_STRETCHES = 10


def check_file(study: Study, path: str | Path, policy: str | None = None) -> CohortOverview:
    """Counts of a file that is right; all faults of one that is not, as a `CohortError`.

    With the hospital's `policy`, a file or the word default, also what that is known to
    refuse, as a `RefusedError`.
    """
    limits = None if policy is None else read_policy(policy)
    frame = read_table(path)
    loaded = cohort_from_frame(frame, study.schema, source=str(path))
    check_own(study, loaded.cohort.patients, Path(path))
    check_times(study, loaded.cohort, str(path))
    faults = [] if limits is None else policy_faults(study, limits)
    if faults:
        raise RefusedError(f"{policy}: this policy does not allow the study.", faults)
    return overview(frame, study.schema, loaded, _grid(study, loaded))


def _grid(study: Study, loaded: LoadedCohort) -> AnyGrid | None:
    """The study's intervals, as far as this hospital alone can know them.

    Where pieces are cut by all centers' events, round stretches of time. With `times =
    "events"` an interval would be one patient's event: there is nothing to show.
    """
    grid = study.grid
    if grid.times is not None:
        return None
    named = named_bounds(grid.edges, None, 0.0)
    if named is not None:
        return Pieces(named)
    # Whole intervals up to the last few patients: no end of one is somebody's time.
    time = np.sort(loaded.cohort.time)
    last = grid.horizon or float(time[-SMALL_CELL:][0]) or 1.0
    width = grid.width or nice_step(last, _STRETCHES)
    return TimeGrid.regular(width, grid.horizon or width * math.ceil(last / width))
