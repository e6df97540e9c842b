"""A cheating coordinator reads every risk set's sum off the slopes in β.

At β = 0 the slope in β is a weighted sum of the risk sets' sums, with weights that α chooses.
Moving one entry of α at a time shows one risk set after the other, although no block indexed by
time and covariate is ever sent.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fedcox.evaluation.attacks.candidate import Candidate
from fedcox.evaluation.attacks.looks import LifeTable
from fedcox.evaluation.attacks.observer import Observer
from fedcox.evaluation.attacks.telescoping import GroupSums, single_patients
from fedcox.federation.queries.derivatives import DerivativesAt
from fedcox.federation.setting import Setting
from fedcox.survival.cohort import FloatArray
from fedcox.survival.derivatives import Detail
from fedcox.survival.link import AbstractLink

_COLD = -1.5
#: Two heights tell events from the others where their slopes differ by more than a constant.
_HOT = (0.0, 1.4)


def probe_risk_sets(
    observer: Observer, setting: Setting, tables: Mapping[str, LifeTable]
) -> dict[str, list[Candidate]]:
    """Single patients in the sums of every risk set: T + 1 rounds, or 2T + 1 for cloglog."""
    link = setting.link
    heights = _HOT[:1] if link.canonical else _HOT
    cold = np.full(setting.intervals, _COLD)
    base = _slopes(observer, setting, cold)
    moved: dict[str, list[list[FloatArray]]] = {name: [] for name in base}
    for height in heights:
        rows: dict[str, list[FloatArray]] = {name: [] for name in base}
        for interval in range(setting.intervals):
            hot = cold.copy()
            hot[interval] = height
            for name, slopes in _slopes(observer, setting, hot).items():
                rows[name].append(slopes - base[name])
        for name, found in rows.items():
            moved[name].append(found)
    return {
        name: single_patients(_group_sums(np.array(found), link, heights), tables[name])
        for name, found in moved.items()
    }


def _slopes(observer: Observer, setting: Setting, alpha: FloatArray) -> dict[str, FloatArray]:
    query = DerivativesAt(setting, alpha, np.zeros(setting.columns), Detail.GRADIENT)
    return {name: sums.beta for name, sums in observer.replies(query).items()}


def _group_sums(moved: FloatArray, link: AbstractLink, heights: tuple[float, ...]) -> GroupSums:
    """Solve for the sums; `moved` is (heights, intervals, columns)."""
    cold, hot = np.exp([_COLD]), np.exp(np.array(heights))
    without = link.at_risk(hot).slope - link.at_risk(cold).slope
    having = link.event(hot).slope - link.event(cold).slope
    if link.canonical:
        return GroupSums(moved[0] / without[0])
    both = np.linalg.solve(np.column_stack([without, having]), moved.reshape(len(heights), -1))
    others, events = both.reshape(2, *moved.shape[1:])
    return GroupSums(others + events, events)
