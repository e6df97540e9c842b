"""What a hospital may read aloud about its own file: counts, and no patient's value.

No smallest, largest or middle value of anything, and no group of fewer than five patients.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from fedcox.data.columns import MISSING, read_levels, read_numbers
from fedcox.data.encoding import LoadedCohort
from fedcox.data.faults import TableFaults
from fedcox.data.schema import CategoryColumn, CohortSchema
from fedcox.data.wording import SMALL_CELL
from fedcox.survival.time_grid import AnyGrid


@dataclass(frozen=True)
class ColumnOverview:
    """One covariate of the file, over all its rows."""

    name: str
    missing: int
    levels: Mapping[str, int] | None  # patients by level; None for numbers


@dataclass(frozen=True)
class IntervalEvents:
    """Events in one stretch of follow-up."""

    label: str
    events: int


@dataclass(frozen=True)
class CohortOverview:
    """Counts of a file that passed every check."""

    patients: int
    events: int
    dropped: Mapping[str, int]
    filled: Mapping[str, int]
    columns: tuple[ColumnOverview, ...]
    intervals: tuple[IntervalEvents, ...]


def overview(
    frame: pd.DataFrame, schema: CohortSchema, loaded: LoadedCohort, grid: AnyGrid | None
) -> CohortOverview:
    """Count a checked table; without a grid nothing is said about when events happened."""
    cohort = loaded.cohort
    return CohortOverview(
        patients=cohort.patients,
        events=int(cohort.event.sum()),
        dropped=loaded.dropped,
        filled=loaded.filled,
        columns=_columns(frame, schema),
        intervals=() if grid is None else _intervals(loaded, grid),
    )


def small_cell(count: int) -> str:
    """The count, or `<5` where it would speak of a few patients."""
    return f"<{SMALL_CELL}" if count < SMALL_CELL else f"{count:,}"


def _columns(frame: pd.DataFrame, schema: CohortSchema) -> tuple[ColumnOverview, ...]:
    table = TableFaults(frame, "")
    overviews = []
    for column in schema.covariates:
        values = table.column(column.name)
        if isinstance(column, CategoryColumn):
            codes = read_levels(values, column.levels)
            missing = int((codes == MISSING).sum())
            counts = np.bincount(codes[codes >= 0], minlength=len(column.levels))
            levels = dict(zip(column.levels, counts.tolist(), strict=True))
            overviews.append(ColumnOverview(column.name, missing, levels))
        else:
            missing = int(read_numbers(values).missing.sum())
            overviews.append(ColumnOverview(column.name, missing, None))
    return tuple(overviews)


def _intervals(loaded: LoadedCohort, grid: AnyGrid) -> tuple[IntervalEvents, ...]:
    """Events per interval; the sparse tail is one entry, so that its end says nothing."""
    cohort = loaded.cohort
    placed = grid.at_risk(cohort.time, cohort.event, "include")
    events = np.bincount(placed.intervals[placed.event] - 1, minlength=grid.intervals)
    telling = np.flatnonzero(events >= SMALL_CELL)
    shown = int(telling[-1]) + 1 if telling.size else 0
    ends = [0.0, *grid.edges[:shown].tolist()]
    rows = [
        IntervalEvents(f"{start:g} – {end:g}", int(count))
        for start, end, count in zip(ends, ends[1:], events, strict=False)
    ]
    rest = int(cohort.event.sum()) - int(events[:shown].sum())
    return (*rows, IntervalEvents(f"after {ends[-1]:g}", rest))
