"""One patient who stands alone: in a share of a batch, or in a column that others lack.

Slopes in β over slopes in α of a share of one patient are that patient.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from fedcox.evaluation.attacks.attack_setting import Candidate
from fedcox.evaluation.attacks.observed_sums import ALL_CENTERS, ObservedAnswers, Observer
from fedcox.federation.batch import Batch, CellBatch, EpochCells, PatientBatch
from fedcox.federation.queries.covariate_scatter import CovariateScatter
from fedcox.federation.queries.covariate_sums import ColumnSums, CovariateSums
from fedcox.federation.queries.derivatives import DerivativesAt
from fedcox.federation.setting import Setting
from fedcox.survival.cohort import FloatArray, IntArray
from fedcox.survival.derivatives import Derivatives, Detail

#: What nearly everybody may have: not treated, no, the first of two codes, the second.
_USUAL = (0.0, 1.0, 2.0)


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
