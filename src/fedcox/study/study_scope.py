"""Whether a question is about the intervals and the model that the study names.

A data manager approves intervals of so many days. Counts by day under the same name are another
question, and so is the same question on a second grid.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import numpy as np

from fedcox.federation.digest import digest
from fedcox.federation.queries.bounded_sums import NoisedLifeTable, NoisedMoments
from fedcox.federation.queries.event_times import EventTimes
from fedcox.federation.queries.interval_counts import IntervalCounts
from fedcox.federation.queries.last_interval import LastInterval
from fedcox.federation.queries.local_steps import LocalTraining
from fedcox.federation.queries.recorded_unit import UNITS
from fedcox.federation.query import AbstractQuery
from fedcox.federation.setting import Setting
from fedcox.models.predictors.linear import LINEAR
from fedcox.study.cells import cells_between
from fedcox.study.noised_fit import public_pieces, public_scale
from fedcox.study.study import Study
from fedcox.study.study_tables import Noise
from fedcox.survival.cohort import FloatArray
from fedcox.survival.link import LINKS
from fedcox.survival.time_grid import AnyGrid, Pieces, TimeGrid

if TYPE_CHECKING:
    from fedcox.privacy.study_memory import StudyMemory

#: Beside those that a study asks for: one before its first event and one after its last.
_WITHOUT_EVENTS = 2
#: Bounds that differ by no more, in parts of themselves, are one bound.
_ROUNDING = 1e-9
#: The kind of all questions about the model: they are about one grid.
_MODEL = "model"
#: No name of a center: of a sum without those who were lost, on the grid of the one with them.
_AGAIN = ""


class StudyScope:
    """A study, asked about every question that claims to be its own.

    It remembers the first grid on which patients were counted, and the first on which the model
    was asked about, among the same centers, with a `memory` also over restarts.
    """

    def __init__(self, study: Study, memory: StudyMemory | None = None) -> None:
        self._study, self._memory = study, memory
        self._noised = isinstance(study.privacy.noise, Noise)
        self._grouped = LINKS[study.model.link].grouped
        self._reading = study.model.censored_interval if self._grouped else "include"
        self._grids = {} if memory is None else dict(memory.now.grids)
        width, horizon = study.grid.width, study.grid.horizon
        self._edges = None
        if width is not None and horizon is not None and self._grouped:
            self._edges = frozenset(TimeGrid.regular(width, horizon).edges.tolist())

    def allows(self, query: AbstractQuery[Any], among: Collection[str] = ()) -> bool:
        """Whether what the study fixes is as it says, in a sum `among` these centers."""
        if isinstance(query, EventTimes):
            horizon = self._study.grid.horizon
            return query.horizon == (np.inf if horizon is None else horizon)
        if isinstance(query, NoisedLifeTable):
            return _same_cells(query.cells, public_pieces(self._study).cells)
        if isinstance(query, NoisedMoments):
            return self._keeps_scale(query)
        setting = _setting(query)
        if setting is not None:
            return self._keeps_setting(setting, frozenset(among))
        if isinstance(query, IntervalCounts) and query.reading != self._reading:
            return False
        grid = getattr(query, "grid", None)
        if grid is None:
            return True
        return self._is_first(type(query).__name__, grid, frozenset(among))

    def _keeps_setting(self, setting: Setting, among: frozenset[str]) -> bool:
        model = self._study.model
        if (setting.link.name, setting.reading) != (model.link, model.censored_interval):
            return False
        if setting.predictor != LINEAR:  # a study file knows no other
            return False
        if (setting.basis is not None) != (model.baseline == "spline"):
            return False
        return self._is_first(_MODEL, setting.grid, among)

    def _is_first(self, kind: str, grid: AnyGrid, among: frozenset[str]) -> bool:
        """Whether the study has this grid and, of its kind, none was asked about before.

        Where a center is lost in mid-round, the others are asked the same again, and then agree
        on a grid of their own. So they have the grid of one larger sum, too.
        """
        asked, own = digest(grid).hex(), json.dumps([kind, *sorted(among)])
        again = json.dumps([kind, *sorted(among), _AGAIN])
        if asked in (self._grids.get(own), self._grids.get(again)):
            return True
        repeated = again not in self._grids and any(
            known == asked and names[0] == kind and among < set(names[1:])
            for names, known in ((json.loads(key), known) for key, known in self._grids.items())
        )
        if own in self._grids and not repeated:
            return False
        # Cells to find the end of follow-up are public; a second choice would narrow it down.
        public = kind == LastInterval.__name__ and not self._grouped
        if not public and not self._keeps_grid(grid, counted=kind != _MODEL):
            return False
        self._grids[again if repeated else own] = asked
        if self._memory is not None:
            self._memory.keep(grids=dict(self._grids))
        return True

    def _keeps_scale(self, query: NoisedMoments) -> bool:
        public, asked = public_scale(self._study), query.scaling
        return all(
            np.array_equal(one, other)
            for one, other in (
                (public.scaling.keep, asked.keep),
                (public.scaling.mean, asked.mean),
                (public.scaling.spread, asked.spread),
                (public.are_numbers, query.are_numbers),
            )
        )

    def _keeps_grid(self, grid: AnyGrid, *, counted: bool) -> bool:
        if isinstance(grid, Pieces) == self._grouped:
            return False
        if isinstance(grid, TimeGrid):
            return self._keeps_intervals(grid)
        if self._noised:
            return self._keeps_public_pieces(grid)
        return self._keeps_cells(grid) if counted else self._keeps_pieces(grid)

    def _keeps_public_pieces(self, pieces: Pieces) -> bool:
        """Under noise: pieces joined from the cells of the life table, from the first on."""
        cells, _, number = public_pieces(self._study)
        among = set(pieces.bounds.tolist()) <= set(cells.bounds.tolist())
        begun = among and pieces.bounds[0] == cells.bounds[0]
        return begun and pieces.intervals <= number and _same_record(pieces, cells)

    def _keeps_cells(self, pieces: Pieces) -> bool:
        """Cells that are counted are those that the study names, or the public ones."""
        grid = self._study.grid
        if not self._keeps_record(pieces):
            return False
        if grid.times is not None:
            return True
        end = grid.horizon or pieces.horizon
        if abs(pieces.horizon - end) > (pieces.unit or 0.0):
            return False
        cells = cells_between(grid.edges, grid.width, end, pieces.unit).pieces
        return np.array_equal(cells.bounds, pieces.bounds)

    def _keeps_pieces(self, pieces: Pieces) -> bool:
        """Pieces are joined from those cells, between the bounds that the study names."""
        grid = self._study.grid
        if not self._keeps_record(pieces):
            return False
        if grid.times is not None:
            return True
        if grid.pieces is not None and pieces.intervals > grid.pieces + _WITHOUT_EVENTS:
            return False
        horizon = grid.horizon if grid.edges is None else grid.edges[-1]
        end = horizon or pieces.horizon
        if pieces.ties is not None or pieces.horizon > end * (1.0 + _ROUNDING):
            return False
        cells = cells_between(grid.edges, grid.width, end, pieces.unit)
        if cells.named is not None:
            # The last one closes where follow-up ends, which may be before the study does.
            return _are_among(pieces.bounds[:-1], cells.named.bounds)
        # Without a horizon its end is agreed on among the centers, and cells with it.
        return horizon is None or _are_among(pieces.bounds, cells.pieces.bounds)

    def _keeps_record(self, pieces: Pieces) -> bool:
        """Without a resolution a usual unit is found, or time is exact."""
        resolution = self._study.outcome.resolution
        return pieces.unit in ((None, *UNITS) if resolution is None else (resolution,))

    def _keeps_intervals(self, grid: TimeGrid) -> bool:
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
    agreed = query.setting
    if isinstance(agreed, LocalTraining):
        agreed = agreed.setting
    return agreed if isinstance(agreed, Setting) else None


def _same_record(one: Pieces, other: Pieces) -> bool:
    return one.unit == other.unit and one.ties is None and other.ties is None


def _same_cells(one: Pieces, other: Pieces) -> bool:
    return _same_record(one, other) and np.array_equal(one.bounds, other.bounds)


def _are_among(bounds: FloatArray, allowed: FloatArray) -> bool:
    places = np.searchsorted(allowed, bounds * (1.0 - _ROUNDING))
    nearest = allowed[np.minimum(places, allowed.size - 1)]
    return np.allclose(nearest, bounds, rtol=2.0 * _ROUNDING, atol=0.0)
