"""A cheating coordinator brings a grid of its own, and says it is harmless.

On a grid so fine that patients leave their interval alone, one time × covariate block at β = 0
tells them all. Where only sums over centers are seen, a center cannot count the others'
patients in an interval and has to believe what it is told; so large groups are claimed.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fedcox.evaluation.attacks.candidate import Candidate
from fedcox.evaluation.attacks.looks import LifeTable
from fedcox.evaluation.attacks.observer import Observer
from fedcox.evaluation.attacks.telescoping import GroupSums, single_patients
from fedcox.federation.evidence import Evidence
from fedcox.federation.queries.derivatives import DerivativesAt
from fedcox.federation.setting import Setting
from fedcox.survival.cohort import IntArray
from fedcox.survival.derivatives import Detail
from fedcox.survival.interval_merging import leavers_within, merged_leavers
from fedcox.survival.time_grid import TimeGrid, grouped_grid

_CLAIMED = 1000  # patients who are said to leave in every interval
_ALPHA = -2.0


def forged_setting(
    setting: Setting, grid: TimeGrid, evidence: Evidence | None = None
) -> Setting:
    """The study's setting on another grid, with groups of a size that nobody counted."""
    told = np.full((2, grid.intervals + 1), _CLAIMED, dtype=np.int64)
    every = np.ones(grid.intervals, dtype=np.bool_)
    parts = setting.link, setting.scaling, told, evidence, setting.present
    return Setting(grid, every, "include", *parts)


def coarse_setting(setting: Setting, intervals: int) -> Setting:
    """The setting on `intervals` that end where intervals of the study do.

    No group is small on one or two, so a center that looks at groups alone lets it pass.
    """
    grid = grouped_grid(setting.grid)
    edges = grid.edges
    chosen = np.unique(np.linspace(-1, edges.size - 1, intervals + 1).astype(int)[1:])
    width = grid.width
    ends = None if width is None else _ends(grid)[chosen]
    return forged_setting(setting, TimeGrid(edges[chosen], width, ends), setting.evidence)


def counted_again(observer: Observer, setting: Setting) -> Setting:
    """The setting with true groups, by evidence that the observer's own centers accept.

    As it was where there is no evidence, since nobody has to be convinced.
    """
    ends = grouped_grid(setting.grid).ends
    if setting.evidence is None or ends is None:
        return setting
    own = grouped_grid(setting.evidence.grid)
    (life,) = observer.life_tables(own).values()
    last = np.isin(np.arange(1, own.intervals + 1), ends)
    counted = merged_leavers(life.patients, life.reached, life.events, last, setting.reading)
    return Setting(
        setting.grid,
        setting.active,
        setting.reading,
        setting.link,
        setting.scaling,
        leavers_within(setting.active, counted),
        observer.federation.evidence(),
        setting.present,
    )


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
    if grid.width is not None and grid.ends is None:
        grid = grid.merged(np.ones(grid.intervals, dtype=np.bool_))
    # The true life table goes with the false claim: it is all the evidence there is.
    setting = forged_setting(setting, grid, observer.federation.evidence())
    alpha = np.full(setting.intervals, _ALPHA)
    query = DerivativesAt(setting, alpha, np.zeros(setting.columns), Detail.INFORMATION)
    weight = setting.link.information(np.exp(alpha))[:, None]
    for name, sums in observer.replies(query).items():
        if sums.curvature is not None and sums.curvature.cross is not None:
            at_risk = GroupSums(sums.curvature.cross / weight)
            for claim in single_patients(at_risk, tables[name]):
                yield Candidate(claim.covariates)
