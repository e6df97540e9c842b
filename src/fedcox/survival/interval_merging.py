"""Intervals that describe too few patients, merged with their neighbours.

Sums over neighbouring risk sets differ by the patients who leave between them. Where these are
one or two, the difference is about one or two patients. So intervals are joined until enough
patients leave in each, and the grid ends while enough are still at risk.
"""

from __future__ import annotations

import numpy as np

from fedcox.errors import CohortError
from fedcox.survival.cohort import BoolArray, FloatArray, IntArray
from fedcox.survival.time_grid import CensoredInterval


def merged_ends(
    patients: int,
    at_risk: FloatArray,
    events: FloatArray,
    reading: CensoredInterval,
    *,
    smallest_group: int,
    smallest_tail: int,
) -> BoolArray:
    """Which intervals of a life table close a merged one.

    `at_risk` counts a patient censored inside an interval as at risk there, whatever the
    study's `reading`; so patients leave an interval by an event in it or censored in it. At
    least `smallest_group` leave each merged one, and of these either none or half as many with
    the event, and likewise without. The first marks come as early as they can; where a small
    group is left, its interval is joined with the next, or the last with the one before.

    Who passes the last interval of the table cannot be told from who is censored in it. Where
    the reading takes these for different groups (`exclude`), that interval is given up.
    """
    needed = max(smallest_tail, smallest_group, 1)
    told = at_risk.size - (reading == "exclude" and at_risk.size > 1)
    tail = np.flatnonzero(at_risk[:told] >= needed)
    if not tail.size:
        raise CohortError(
            "All centers together have too few patients for these limits.",
            [
                f"{patients} patients are at risk in the first interval; at least {needed} are "
                "needed, see [privacy]."
            ],
        )
    leaving = at_risk - np.append(at_risk[1:], 0.0)
    last = np.zeros(at_risk.size, dtype=np.bool_)
    gathered = np.zeros(2)
    for interval in range(int(tail[-1]) + 1):
        happened = events[interval]
        gathered += (leaving[interval] - happened, happened)
        if _enough(gathered[:, None], smallest_group)[0]:
            last[interval], gathered = True, np.zeros(2)
    # The grid ends with the tail; those at risk there leave together.
    last[int(tail[-1])] = True
    while np.count_nonzero(last) > 1:
        leavers = merged_leavers(patients, at_risk, events, last, reading)
        small = np.flatnonzero(~_enough(leavers, smallest_group))
        if not small.size:
            break
        marks = np.flatnonzero(last)
        last[marks[min(max(int(small[0]) - 1, 0), marks.size - 2)]] = False
    return last


def _enough(leavers: FloatArray, smallest: int) -> BoolArray:
    """Whether nobody leaves, or so many that no part of them is small."""
    parts_large = ((leavers == 0) | (leavers >= -(-smallest // 2))).all(axis=0)
    total = leavers.sum(axis=0)
    return np.asarray((total == 0) | (parts_large & (total >= smallest)))


def merged_leavers(
    patients: int,
    at_risk: FloatArray,
    events: FloatArray,
    last: BoolArray,
    reading: CensoredInterval,
) -> FloatArray:
    """Patients at risk last in no merged interval, in the first, in the second, and so on.

    The first row counts those without the event there, the second those with it.
    """
    ends = np.flatnonzero(last)
    happened = np.add.reduceat(events[: ends[-1] + 1], np.append(0, ends[:-1] + 1))
    remaining = np.append(at_risk[1:], 0.0)[ends]
    censored = -np.diff(remaining, prepend=float(patients)) - happened
    # A patient censored inside an interval is at risk in it, or left before it; who passes the
    # horizon leaves with the last interval.
    without = np.append(censored, 0.0) if reading == "exclude" else np.append(0.0, censored)
    without[-1] += remaining[-1]
    return np.stack([without, np.append(0.0, happened)])


def leavers_within(active: BoolArray, leavers: FloatArray | IntArray) -> IntArray:
    """The same by the intervals that are fitted: the last of these they were at risk in.

    An event in an interval that is not fitted is none there.
    """
    before = np.append(0, np.cumsum(active))
    fitted = np.append(False, active)
    without, happened = leavers
    rows = without + np.where(fitted, 0.0, happened), np.where(fitted, happened, 0.0)
    total = int(np.count_nonzero(active)) + 1
    counted = [np.bincount(before, weights=row, minlength=total) for row in rows]
    return np.rint(np.stack(counted)).astype(np.int64)
