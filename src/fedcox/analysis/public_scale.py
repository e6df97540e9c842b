"""Grid and scale that the study file alone gives, so that no patient is asked about them.

A fit under differential privacy may not look at the patients for free. Where the ordinary one
asks for means and spreads, this one takes them from the ranges that the study declares.
"""

from __future__ import annotations

import numpy as np

from fedcox.analysis.study import Study
from fedcox.data.schema import CovariateColumn, NumberColumn
from fedcox.errors import StudyError
from fedcox.federation.setting import Setting
from fedcox.survival.link import LINKS
from fedcox.survival.scaling import Scaling
from fedcox.survival.time_grid import AnyGrid, Pieces, TimeGrid

#: A declared range is taken as four standard deviations wide.
_DEVIATIONS = 4.0


def public_setting(study: Study) -> Setting:
    """Every interval up to the horizon, and columns centered and scaled by their ranges."""
    if study.grid.width is None or study.grid.horizon is None:
        raise StudyError(
            "The grid is not known without asking the patients.",
            ["Give [grid] width and horizon for a study under differential privacy."],
        )
    link = LINKS[study.model.link]
    grid: AnyGrid = TimeGrid.regular(study.grid.width, study.grid.horizon)
    if not link.grouped:
        grid = Pieces.on_units(np.append(0.0, grid.edges), study.outcome.resolution)
    means_and_spreads = [
        pair for column in study.schema.covariates for pair in _mean_and_spread(column)
    ]
    mean, spread = np.array(means_and_spreads, dtype=np.float64).T
    scaling = Scaling(np.arange(mean.size), mean, spread)
    active = np.ones(grid.intervals, dtype=np.bool_)
    return Setting(grid, active, study.model.censored_interval, link, scaling)


def _mean_and_spread(column: CovariateColumn) -> list[tuple[float, float]]:
    if isinstance(column, NumberColumn):
        if column.minimum is None or column.maximum is None:
            raise StudyError(
                f"The range of '{column.name}' is not known without asking the patients.",
                [f"Give [covariates] {column.name} a min and a max that everyone may know."],
            )
        low, high = column.minimum, column.maximum
        return [((low + high) / 2.0, (high - low) / _DEVIATIONS or 1.0)]
    share = 1.0 / len(column.levels)  # as if all levels were as frequent
    return [(share, float(np.sqrt(share * (1.0 - share))))] * len(column.compared_levels)
