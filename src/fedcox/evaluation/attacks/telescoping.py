"""Do neighbouring sums over risk sets differ by one patient? Then the difference is that one.

A sum over everybody at risk, less the same sum one interval later, is the sum over those who
left in between. WebDISCO sends such sums at every event time; the time × covariate block of a
Hessian at β = 0 is the same on the study's grid, since all weights of an interval are equal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fedcox.evaluation.attacks.attack_setting import Candidate
from fedcox.evaluation.attacks.observed_sums import (
    LifeTable,
    ObservedAnswers,
    ObservedSource,
    Observer,
    sources,
)
from fedcox.federation.queries.derivatives import DerivativesAt
from fedcox.federation.setting import Setting
from fedcox.survival.cohort import FloatArray
from fedcox.survival.derivatives import Detail
from fedcox.survival.link import AbstractLink

_COLD = -1.5
#: Two heights tell events from the others where their slopes differ by more than a constant.
_HOT = (0.0, 1.4)


@dataclass(frozen=True, eq=False)
class GroupSums:
    """Sums of covariates over those at risk, and over those with the event where known.

    Rows that are not known are NaN.
    """

    at_risk: FloatArray  # (intervals, columns)
    events: FloatArray | None = None  # (intervals, columns)


def single_patients(sums: GroupSums, table: LifeTable) -> list[Candidate]:
    """Groups of one: who leaves alone, has the event alone, or is censored alone.

    Where censored patients count one half, a step of one half is one of them.
    """
    claims = []
    left = sums.at_risk - np.vstack([sums.at_risk[1:], np.zeros_like(sums.at_risk[:1])])
    for interval, (leaving, events) in enumerate(
        zip(table.leaving.tolist(), table.events.tolist(), strict=True)
    ):
        at = interval + 1
        if np.isclose(leaving, 1.0):
            claims.append(Candidate(left[interval], at, events == 1))
        elif np.isclose(leaving, 0.5):
            claims.append(Candidate(left[interval] / leaving))
        elif sums.events is not None:
            if events == 1:
                claims.append(Candidate(sums.events[interval], at, event=True))
            if np.isclose(leaving - events, 1.0):
                claims.append(
                    Candidate(left[interval] - sums.events[interval], at, event=False)
                )
    return [claim for claim in claims if np.isfinite(claim.covariates).all()]


def telescope_blocks(source: ObservedSource) -> list[Candidate]:
    """Single patients in the time × covariate blocks that were asked for at β = 0."""
    sums, link = source.sums, source.setting.link
    best: list[Candidate] = []
    for point, cross in zip(sums.crossed.tolist(), sums.cross, strict=True):
        if sums.beta[point].any():
            continue
        v = np.exp(sums.alpha[point])
        if link.canonical or sums.expected[point]:
            at_risk = cross / link.information(v)[:, None]
        else:
            at_risk = _from_the_tail(cross, v, link, source.table)
        claims = single_patients(GroupSums(at_risk), source.table)
        best = max(best, claims, key=len)
    return best


def ask_for_block(
    observer: Observer, setting: Setting, tables: Mapping[str, LifeTable]
) -> dict[str, ObservedSource]:
    """Ask for the expected information at β = 0: one round, and all weights are known."""
    alpha = np.full(setting.intervals, -2.0)
    beta = np.zeros(setting.columns)
    query = DerivativesAt(setting, alpha, beta, Detail.INFORMATION)
    return sources([ObservedAnswers(query, observer.replies(query))], setting, tables)


def _from_the_tail(
    cross: FloatArray, v: FloatArray, link: AbstractLink, table: LifeTable
) -> FloatArray:
    """Sums over those at risk where the event weighs less than the rest: f'' and g'' differ.

    Known where nobody has the event, and where all who leave have it and the next sum is known.
    """
    weight, event_weight = link.at_risk(v).curvature, link.event(v).curvature
    ratio = event_weight / weight
    sums = np.full_like(cross, np.nan)
    later = np.zeros(cross.shape[1])
    for interval in reversed(range(cross.shape[0])):
        row = cross[interval] / weight[interval]
        if not table.events[interval]:
            sums[interval] = row
        elif np.isclose(table.leaving[interval], table.events[interval]):
            # Everyone who leaves is an event, and stands in the row with the lesser weight.
            sums[interval] = (row - (1.0 - ratio[interval]) * later) / ratio[interval]
        later = sums[interval]
    return sums


def probe_risk_sets(
    observer: Observer, setting: Setting, tables: Mapping[str, LifeTable]
) -> dict[str, list[Candidate]]:
    """Single patients in the sums of every risk set: T + 1 rounds, or 2T + 1 for cloglog.

    A cheating coordinator reads every risk set's sum off the slopes in β: at β = 0 that slope
    is a weighted sum of the risk sets' sums, with weights that α chooses. Moving one entry of α
    at a time shows one risk set after the other, although no block indexed by time and
    covariate is ever sent.
    """
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
        for name, differences in rows.items():
            moved[name].append(differences)
    return {
        name: single_patients(_group_sums(np.array(differences), link, heights), tables[name])
        for name, differences in moved.items()
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
