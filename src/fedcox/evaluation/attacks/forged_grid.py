"""A cheating coordinator brings a grid of its own.

On a grid so fine that patients leave their interval alone, one time × covariate block at β = 0
tells them all.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fedcox.evaluation.attacks.candidate import Candidate
from fedcox.evaluation.attacks.looks import LifeTable
from fedcox.evaluation.attacks.observer import Observer
from fedcox.evaluation.attacks.telescoping import GroupSums, single_patients
from fedcox.federation.queries.derivatives import DerivativesAt
from fedcox.federation.setting import Setting
from fedcox.survival.cohort import IntArray
from fedcox.survival.derivatives import Detail
from fedcox.survival.time_grid import TimeGrid, grouped_grid

_ALPHA = -2.0


def forged_setting(setting: Setting, grid: TimeGrid) -> Setting:
    """The study's setting on another grid."""
    every = np.ones(grid.intervals, dtype=np.bool_)
    return Setting(grid, every, "include", setting.link, setting.scaling)


def coarse_setting(setting: Setting, intervals: int) -> Setting:
    """The setting on `intervals` that end where intervals of the study do.

    No group is small on one or two, so a center that looks at groups alone lets it pass.
    """
    grid = grouped_grid(setting.grid)
    edges = grid.edges
    chosen = np.unique(np.linspace(-1, edges.size - 1, intervals + 1).astype(int)[1:])
    width = grid.width
    ends = None if width is None else _ends(grid)[chosen]
    return forged_setting(setting, TimeGrid(edges[chosen], width, ends))


def _ends(grid: TimeGrid) -> IntArray:
    """How many intervals of one width each edge closes."""
    return np.arange(1, grid.intervals + 1) if grid.ends is None else grid.ends


def probe_on_grid(observer: Observer, setting: Setting) -> Iterator[Candidate]:
    """Single patients in one block at β = 0: two rounds.

    Their intervals are those of the forged grid, so they are not part of the claim.
    """
    grid = grouped_grid(setting.grid)
    tables = {
        name: LifeTable.of(counts, setting)
        for name, counts in observer.life_tables(grid).items()
    }
    setting = forged_setting(setting, grid)
    alpha = np.full(setting.intervals, _ALPHA)
    query = DerivativesAt(setting, alpha, np.zeros(setting.columns), Detail.INFORMATION)
    weight = setting.link.information(np.exp(alpha))[:, None]
    for name, sums in observer.replies(query).items():
        if sums.curvature is not None and sums.curvature.cross is not None:
            at_risk = GroupSums(sums.curvature.cross / weight)
            for claim in single_patients(at_risk, tables[name]):
                yield Candidate(claim.covariates)
