"""Single patients: who is the difference of neighbouring sums, and who stands alone.

A sum over everybody at risk, less the same sum one interval later, is the sum over those who
left in between. WebDISCO sends such sums at every event time; the time × covariate block of a
Hessian at β = 0 is the same on the study's grid, since all weights of an interval are equal.
Where one patient stands alone, in a share of a batch or in a column that others lack, slopes in
β over slopes in α are that patient.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedcox.evaluation.attacks.attack_setting import Candidate
from fedcox.evaluation.attacks.observed_sums import (
    ALL_CENTERS,
    LifeTable,
    ObservedAnswers,
    ObservedSource,
    Observer,
    sources,
)
from fedcox.federation.batch import Batch, CellBatch, EpochCells, PatientBatch
from fedcox.federation.queries.covariate_scatter import CovariateScatter
from fedcox.federation.queries.covariate_sums import ColumnSums, CovariateSums
from fedcox.federation.queries.derivatives import DerivativesAt
from fedcox.federation.setting import Setting
from fedcox.survival.cohort import FloatArray, IntArray
from fedcox.survival.derivatives import Derivatives, Detail
from fedcox.survival.link import AbstractLink

_COLD = -1.5
#: Two heights tell events from the others where their slopes differ by more than a constant.
_HOT = (0.0, 1.4)
#: What nearly everybody may have: not treated, no, the first of two codes, the second.
_USUAL = (0.0, 1.0, 2.0)


# Neighbouring sums over risk sets.


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


# One patient in a share of a batch, or in a column.


def read_batches(
    exchanges: Sequence[ObservedAnswers], sizes: Mapping[str, int]
) -> list[Candidate]:
    """Patients who were alone in their source's share of a batch; each once.

    Whoever runs the study deals out the patients' numbers: `sizes` are the patients of each
    source, in the order of numbers.
    """
    claims: dict[int, Candidate] = {}
    for exchange in exchanges:
        query = exchange.query
        if not isinstance(query, DerivativesAt) or query.batch is None:
            continue
        for name, number in alone(query.batch, sizes).items():
            claim = _read(exchange.replies[name], query.agreed)
            if claim is not None:
                claims.setdefault(number, claim)
    return list(claims.values())


def ask_for_single_patients(
    observer: Observer,
    setting: Setting,
    sizes: Mapping[str, int],
    alpha: FloatArray,
    rounds: int,
) -> list[Candidate]:
    """Ask for batches of one, `rounds` times: a question no honest study needs."""
    population = sum(sizes.values())
    beta = np.zeros(setting.columns)
    exchanges = []
    for step in range(rounds):
        batch = PatientBatch(0, step, 1, population)
        query = DerivativesAt(setting, alpha, beta, Detail.GRADIENT, batch)
        exchanges.append(ObservedAnswers(query, observer.replies(query)))
    return read_batches(exchanges, sizes)


def alone(batch: Batch, sizes: Mapping[str, int]) -> dict[str, int]:
    """Sources with one patient in the batch, and that patient's number."""
    drawn = np.unique(
        batch.pairs()[0] if isinstance(batch, CellBatch | EpochCells) else batch.numbers()
    )
    if set(sizes) == {ALL_CENTERS}:
        return {ALL_CENTERS: int(drawn[0])} if drawn.size == 1 else {}
    singles, first = {}, 0
    for name, size in sizes.items():
        numbers = _between(drawn, first, first + size)
        if numbers.size == 1:
            singles[name] = int(numbers[0])
        first += size
    return singles


def _between(numbers: IntArray, first: int, end: int) -> IntArray:
    return numbers[(numbers >= first) & (numbers < end)]


def _read(sums: Derivatives, setting: Setting) -> Candidate | None:
    slope = float(sums.alpha.sum())
    at_risk = np.flatnonzero(sums.alpha)
    if not at_risk.size or abs(slope) < 1e-9:
        return None  # not at risk in a fitted interval, or not in the drawn ones
    last = int(at_risk[-1])
    if setting.reading == "half":
        return Candidate(sums.beta / slope)
    return Candidate(sums.beta / slope, last + 1, bool(sums.alpha[last] < 0.0))


def read_rare_columns(
    exchanges: Sequence[ObservedAnswers], setting: Setting
) -> Iterator[Candidate]:
    """One claim for each column and usual value, of every source.

    A column that has one value for all but one patient gives that patient away: the sums of
    products that set the common scale hold Σ (d − v)·x for every pair of columns, v being the
    value of d that nearly everybody has. If one patient differs, that is a multiple of this
    patient's covariates, and Σ (d − v) tells of which.
    """
    sums: Mapping[str, ColumnSums] = _replies(exchanges, CovariateSums)
    for exchange in exchanges:
        if isinstance(exchange.query, CovariateScatter):
            for name, scatter in exchange.replies.items():
                yield from _claims(sums[name], scatter, exchange.query.mean, setting)


def _replies(exchanges: Sequence[ObservedAnswers], kind: type) -> Mapping[str, Any]:
    replies = [each.replies for each in exchanges if isinstance(each.query, kind)]
    return replies[-1] if replies else {}


def _claims(
    sums: ColumnSums, scatter: FloatArray, mean: FloatArray, setting: Setting
) -> Iterator[Candidate]:
    scaling = setting.scaling
    for usual in _USUAL:
        off = sums.total - sums.patients * usual  # Σ (d − v), of every column
        products = scatter + np.outer(sums.total - sums.patients * mean, mean)
        products += np.outer(mean - usual, sums.total)
        for column in np.flatnonzero(np.abs(off) > 1e-9):
            patient = products[column] / off[column]
            yield Candidate((patient[scaling.keep] - scaling.mean) / scaling.spread)
