"""How many were at risk and had the event in each interval, over all centers, if it is told."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedcox.study.fitted import FittedStudy
from fedcox.survival.cohort import FloatArray


@dataclass(frozen=True, eq=False)
class IntervalCounts:
    """Patients at risk and events in each interval, over all centers."""

    at_risk: FloatArray
    events: FloatArray


def interval_counts(fitted: FittedStudy) -> IntervalCounts | None:
    """None where counts would break a guarantee."""
    at_risk = [row.at_risk for row in fitted.baseline]
    events = [row.events for row in fitted.baseline]
    if None in at_risk or None in events:
        return None
    return IntervalCounts(
        np.array(at_risk, dtype=np.float64), np.array(events, dtype=np.float64)
    )
