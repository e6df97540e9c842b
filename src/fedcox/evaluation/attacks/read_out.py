"""The lattice attack on whatever a study sends: grouped time, exact time, or under noise.

It needs every combination of values that a patient can have, where columns have few of them.

Under noise the attacker does as if there were none: what is sent of the covariates, and of
those of patients with the event, is a sum of whole numbers of patients, too. No whole numbers
explain noised sums, so that nothing is claimed; a sum that left without its noise is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product, repeat

import numpy as np

from fedcox.data.schema import CategoryColumn, CohortSchema, NumberColumn
from fedcox.evaluation.attacks.attack_setting import AttackSetting, Candidate, Deadline
from fedcox.evaluation.attacks.exposures import FineTable, read_exposures
from fedcox.evaluation.attacks.lattice import MOST_UNKNOWNS, read_whole_numbers, whole_numbers
from fedcox.evaluation.attacks.observed_sums import LifeTable, ObservedAnswers, sources
from fedcox.federation.queries.bounded_sums import (
    AbstractBoundedSum,
    NoisedEventMoments,
    NoisedMoments,
    NoisedProducts,
)
from fedcox.federation.queries.interval_counts import IntervalCounts
from fedcox.federation.setting import Setting
from fedcox.survival.cohort import Cohort, FloatArray
from fedcox.survival.time_grid import Pieces

#: More combinations than this are more than a lattice reduction of minutes finds.
MOST_COMBINATIONS = 64
_MOST_VALUES = 12  # of one number
_SAME_VARIANCE = 0.01


def combinations_of(schema: CohortSchema, setting: Setting) -> FloatArray | None:
    """(combinations, kept columns) on the common scale; None where a column has many values.

    The study file names levels, and ranges of numbers, which are taken to be whole if there
    are few of them. A number without a range is 0 or 1 if its variance says so.
    """
    choices = [_choices(column) for column in schema.covariates]
    first = 0
    for place, column in enumerate(schema.covariates):
        if choices[place] is None and _is_two_levels(setting, first):
            choices[place] = np.array([[0.0], [1.0]])
        first += len(column.compared_levels) if isinstance(column, CategoryColumn) else 1
    known = [choice for choice in choices if choice is not None]
    sizes = [len(choice) for choice in known]
    if len(known) < len(choices) or np.prod(sizes, dtype=float) > MOST_COMBINATIONS:
        return None
    every = np.array([np.concatenate(values) for values in product(*known)])
    scaling = setting.scaling
    kept = np.unique(every[:, scaling.keep], axis=0)
    return np.asarray((kept - scaling.mean) / scaling.spread)


def _choices(column: CategoryColumn | NumberColumn) -> FloatArray | None:
    """The values of one column: of a category those of its encoded columns, row by row."""
    if isinstance(column, CategoryColumn):
        levels = len(column.compared_levels)
        return np.vstack([np.zeros(levels), np.eye(levels)])
    low, high = column.minimum, column.maximum
    if low is None or high is None or high - low >= _MOST_VALUES or low != int(low):
        return None
    return np.arange(low, high + 1.0)[:, None]


def _is_two_levels(setting: Setting, column: int) -> bool:
    """Whether an encoded column is zeros and ones, which its variance gives away."""
    (place,) = np.nonzero(setting.scaling.keep == column)
    if not place.size:
        return False
    mean, spread = setting.scaling.mean[place[0]], setting.scaling.spread[place[0]]
    variance = mean * (1.0 - mean)
    return bool(variance > 0 and abs(spread**2 - variance) < _SAME_VARIANCE * variance)


def within_reach(target: AttackSetting) -> int:
    """Everybody, where covariates have few values and no smooth baseline hides the pieces."""
    setting = target.setting
    if setting.basis is not None or setting.reading == "half":
        return 0
    return 0 if combinations_of(target.study.schema, setting) is None else target.patients


def read_the_fit(target: AttackSetting) -> Iterator[Candidate]:
    """Whoever reads the messages of an ordinary fit."""
    yield from read_out(target, target.exchanges, target.tables, target.deadline())


def read_out(
    target: AttackSetting,
    exchanges: Sequence[ObservedAnswers],
    tables: Mapping[str, LifeTable],
    deadline: Deadline,
) -> Iterator[Candidate]:
    """The patients of every source of these replies."""
    kinds = combinations_of(target.study.schema, target.setting)
    if kinds is None or not within_reach(target):
        return
    if target.noised:
        yield from _read_noised(target, exchanges, kinds, deadline)
    for name, source in sources(exchanges, target.setting, tables).items():
        if target.setting.link.grouped:
            yield from read_whole_numbers(source, kinds, deadline)
        else:
            yield from read_exposures(source, kinds, _fine_table(exchanges, name), deadline)


def _fine_table(exchanges: Sequence[ObservedAnswers], name: str) -> FineTable:
    """The life table on cells that a study of exact time begins with."""
    for exchange in reversed(exchanges):
        query = exchange.query
        if isinstance(query, IntervalCounts) and isinstance(query.grid, Pieces):
            return FineTable(query.grid, exchange.replies[name])
    raise ValueError("Exact time is counted on cells.")


def _read_noised(
    target: AttackSetting,
    exchanges: Sequence[ObservedAnswers],
    kinds: FloatArray,
    deadline: Deadline,
) -> Iterator[Candidate]:
    for exchange in exchanges:
        query = exchange.query
        deadline.check()
        if isinstance(query, NoisedMoments | NoisedProducts):
            claims = [Candidate(kind) for kind in kinds]
        elif isinstance(query, NoisedEventMoments):
            claims = [
                Candidate(kind, piece + 1, event=True)
                for kind in kinds
                for piece in range(target.setting.intervals)
            ]
        else:
            continue
        for reply in exchange.replies.values():
            yield from _explained(query, reply, claims, target)


def _explained(
    query: AbstractBoundedSum,
    reply: FloatArray,
    claims: Sequence[Candidate],
    target: AttackSetting,
) -> Iterator[Candidate]:
    """How many patients of each kind explain a reply, if it had no noise."""
    if len(claims) > MOST_UNKNOWNS:
        return
    rows = query.rows(_invented(claims, target.setting), np.arange(len(claims)))
    unsure = np.full(query.size, query.release.resolution * np.sqrt(target.patients))
    guess = np.full(len(claims), target.patients / len(claims))
    numbers = whole_numbers(rows.T, reply, unsure, guess)
    if numbers is not None:
        for claim, number in zip(claims, numbers.tolist(), strict=True):
            yield from repeat(claim, number)


def _invented(claims: Sequence[Candidate], setting: Setting) -> Cohort:
    """Patients as they are claimed, one of each kind."""
    grid, scaling = setting.grid, setting.scaling
    covariates = np.array([claim.covariates for claim in claims])
    ends = np.append(grid.horizon, grid.edges)
    starts = np.append(grid.horizon, np.append(0.0, grid.edges[:-1]))
    piece = np.array([claim.intervals or 0 for claim in claims])
    return Cohort(
        scaling.mean + covariates * scaling.spread,
        0.5 * (starts + ends)[piece],
        np.array([bool(claim.event) for claim in claims]),
    )
