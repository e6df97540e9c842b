"""Whether a question is about the intervals and the model that the study names.

A data manager approves intervals of so many days. Counts by day under the same name are another
question.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fedcox.analysis.agreement import cells_between
from fedcox.analysis.study import Study
from fedcox.federation.queries.event_times import EventTimes
from fedcox.federation.queries.last_interval import LastInterval
from fedcox.federation.queries.recorded_unit import UNITS
from fedcox.federation.query import AbstractQuery
from fedcox.federation.setting import Setting
from fedcox.survival.link import LINKS
from fedcox.survival.time_grid import Pieces, TimeGrid


class KeptStudy:
    """A study, asked about every question that claims to be its own."""

    def __init__(self, study: Study) -> None:
        self._study = study
        self._grouped = LINKS[study.model.link].grouped
        width, horizon = study.grid.width, study.grid.horizon
        self._edges = None
        if width is not None and horizon is not None and self._grouped:
            self._edges = frozenset(TimeGrid.regular(width, horizon).edges.tolist())

    def keeps_to(self, query: AbstractQuery[Any]) -> bool:
        """Whether what the study fixes is as it says; the rest is for policies to judge."""
        if isinstance(query, EventTimes):
            horizon = self._study.grid.horizon
            return query.horizon == (np.inf if horizon is None else horizon)
        setting = _setting(query)
        if setting is not None:
            model = self._study.model
            if (setting.link.name, setting.reading) != (model.link, model.censored_interval):
                return False
        if isinstance(query, LastInterval) and not self._grouped:
            return True  # the cells are public, and say nothing but where follow-up ends
        grid = getattr(query, "grid", None) if setting is None else setting.grid
        if grid is None:
            return True
        if isinstance(grid, Pieces):
            return not self._grouped and self._keeps_pieces(grid, counted=setting is None)
        return self._grouped and self._keeps_grid(grid)

    def _keeps_pieces(self, pieces: Pieces, *, counted: bool) -> bool:
        """Cells that are counted are those that the study names, or the public ones.

        Pieces are made of them.
        """
        study = self._study
        resolution, horizon = study.outcome.resolution, study.grid.horizon
        # Without one in the study, one of the usual units is found, or time is exact.
        if pieces.unit not in ((None, *UNITS) if resolution is None else (resolution,)):
            return False
        if not counted or study.grid.times is not None:
            return True
        if horizon is not None and abs(pieces.horizon - horizon) > (pieces.unit or 0.0):
            return False
        grid, end = study.grid, horizon or pieces.horizon
        cells = cells_between(grid.edges, grid.width, end, pieces.unit).pieces
        return np.array_equal(cells.bounds, pieces.bounds)

    def _keeps_grid(self, grid: TimeGrid) -> bool:
        width = self._study.grid.width
        if width is None or grid.width is None:
            return width is grid.width
        if grid.width != width:
            return False
        if self._edges is not None:
            return self._edges.issuperset(grid.edges.tolist())
        # The end is agreed on among the centers, and is where the last interval closes.
        inner = grid.edges[:-1] / width
        return bool(np.allclose(inner, np.rint(inner), rtol=1e-9, atol=0.0))


def _setting(query: AbstractQuery[Any]) -> Setting | None:
    """The setting that a question refers to, be it through another thing agreed on."""
    timing: Setting | None = getattr(query.setting, "timing", None)
    return timing
