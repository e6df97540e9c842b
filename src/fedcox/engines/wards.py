"""Many small centers in one process, summed over together.

A thousand simulated clinics of a hundred patients would cost more in calls than in arithmetic.
What a fit needs of them are sums, and the sum over several centers is the answer of their
union; so the engine that holds them all anyway joins neighbours into wards and asks those. Few
centers are never joined: there every reply is its own, and rounding is that of a real
deployment.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fedcox.federation.center import Center
from fedcox.survival.cohort import Cohort

#: Up to this many centers, each answers for itself.
_FEW = 64
#: A ward is full at this many patients: enough for fast sums, few enough for the cache.
_FULL = 8192


def wards(centers: Sequence[Center]) -> tuple[Center, ...]:
    """Neighbouring centers joined until a ward is full; few centers stay apart."""
    if len(centers) <= _FEW:
        return tuple(centers)
    joined: list[Center] = []
    waiting: list[Center] = []
    patients = 0
    for center in centers:
        waiting.append(center)
        patients += center.cohort.patients
        if patients >= _FULL:
            joined.append(_join(waiting))
            waiting, patients = [], 0
    return tuple(joined + ([_join(waiting)] if waiting else []))


def _join(centers: Sequence[Center]) -> Center:
    if len(centers) == 1:
        # The center has admitted the question already, and would count it twice.
        return replace(centers[0], gate=None)
    union = Cohort.joined([center.cohort for center in centers])
    return Center(f"{centers[0].name} to {centers[-1].name}", union)


def numbered_through(centers: Sequence[Center]) -> tuple[Center, ...]:
    """Patients numbered 0, 1, … over all centers, unless they are already.

    Cohorts cut from one table keep that table's numbers, so that batches drawn over all
    patients do not depend on the cut.
    """
    numbers = np.concatenate([center.cohort.number for center in centers])
    counted = np.diff(numbers, prepend=-1) == 1  # most often in order, and then no sort
    if counted.all() or np.array_equal(np.sort(numbers), np.arange(numbers.size)):
        return tuple(centers)
    ends = np.cumsum([center.cohort.patients for center in centers])
    return tuple(
        replace(
            center,
            cohort=replace(center.cohort, number=np.arange(end - center.cohort.patients, end)),
        )
        for center, end in zip(centers, ends.tolist(), strict=True)
    )
