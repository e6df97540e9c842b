"""Whether a question is about the intervals and the model that the study names.

A data manager approves intervals of so many days. Counts by day under the same name are another
question.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fedcox.analysis.study import Study
from fedcox.federation.queries.event_times import EventTimes
from fedcox.federation.query import AbstractQuery
from fedcox.federation.setting import Setting
from fedcox.survival.time_grid import TimeGrid


def keeps_to(study: Study, query: AbstractQuery[Any]) -> bool:
    """Whether what the study fixes is as it says; the rest is for policies to judge."""
    if isinstance(query, EventTimes):
        horizon = study.grid.horizon
        return query.horizon == (np.inf if horizon is None else horizon)
    setting = _setting(query)
    if setting is not None:
        model = study.model
        if (setting.link.name, setting.reading) != (model.link, model.censored_interval):
            return False
    grid = getattr(query, "grid", None) if setting is None else setting.grid
    return grid is None or _keeps_grid(study, grid)


def _setting(query: AbstractQuery[Any]) -> Setting | None:
    """The setting that a question refers to, be it through another thing agreed on."""
    agreed = query.setting
    found = agreed if isinstance(agreed, Setting) else getattr(agreed, "setting", None)
    return found if isinstance(found, Setting) else None


def _keeps_grid(study: Study, grid: TimeGrid) -> bool:
    width, horizon = study.grid.width, study.grid.horizon
    if width is None or grid.width is None:
        return width is grid.width
    if grid.width != width:
        return False
    if horizon is not None:
        return bool(np.isin(grid.edges, TimeGrid.regular(width, horizon).edges).all())
    # The end is agreed on among the centers, and is where the last interval closes.
    inner = grid.edges[:-1] / width
    return bool(np.allclose(inner, np.rint(inner), rtol=1e-9, atol=0.0))
