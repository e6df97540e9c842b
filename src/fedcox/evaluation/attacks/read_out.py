"""The lattice attack on whatever a study sends: grouped time, exact time, or under noise.

Under noise the attacker does as if there were none: what is sent of the covariates, and of
those of patients with the event, is a sum of whole numbers of patients, too. No whole numbers
explain noised sums, so that nothing is claimed; a sum that left without its noise is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat

import numpy as np

from fedcox.evaluation.attacks.candidate import Candidate
from fedcox.evaluation.attacks.combinations import combinations_of
from fedcox.evaluation.attacks.exposures import FineTable, read_exposures
from fedcox.evaluation.attacks.lattice import read_whole_numbers
from fedcox.evaluation.attacks.looks import LifeTable, sources
from fedcox.evaluation.attacks.observer import Exchange
from fedcox.evaluation.attacks.scene import Deadline, Scene
from fedcox.evaluation.attacks.whole_numbers import MOST_UNKNOWNS, whole_numbers
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


def within_reach(scene: Scene) -> int:
    """Everybody, where covariates have few values and no smooth baseline hides the pieces."""
    setting = scene.setting
    if setting.basis is not None or setting.reading == "half":
        return 0
    return 0 if combinations_of(scene.study.schema, setting) is None else scene.patients


def read_the_fit(scene: Scene) -> Iterator[Candidate]:
    """Whoever reads the messages of an ordinary fit."""
    yield from read_out(scene, scene.exchanges, scene.tables, scene.deadline())


def read_out(
    scene: Scene,
    exchanges: Sequence[Exchange],
    tables: Mapping[str, LifeTable],
    deadline: Deadline,
) -> Iterator[Candidate]:
    """The patients of every source of these replies."""
    kinds = combinations_of(scene.study.schema, scene.setting)
    if kinds is None or not within_reach(scene):
        return
    if scene.noised:
        yield from _read_noised(scene, exchanges, kinds, deadline)
    for name, source in sources(exchanges, scene.setting, tables).items():
        if scene.setting.link.grouped:
            yield from read_whole_numbers(source, kinds, deadline)
        else:
            yield from read_exposures(source, kinds, _fine_table(exchanges, name), deadline)


def _fine_table(exchanges: Sequence[Exchange], name: str) -> FineTable:
    """The life table on cells that a study of exact time begins with."""
    for exchange in reversed(exchanges):
        query = exchange.query
        if isinstance(query, IntervalCounts) and isinstance(query.grid, Pieces):
            return FineTable(query.grid, exchange.replies[name])
    raise ValueError("Exact time is counted on cells.")


def _read_noised(
    scene: Scene, exchanges: Sequence[Exchange], kinds: FloatArray, deadline: Deadline
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
                for piece in range(scene.setting.intervals)
            ]
        else:
            continue
        for reply in exchange.replies.values():
            yield from _explained(query, reply, claims, scene)


def _explained(
    query: AbstractBoundedSum, reply: FloatArray, claims: Sequence[Candidate], scene: Scene
) -> Iterator[Candidate]:
    """How many patients of each kind explain a reply, if it had no noise."""
    if len(claims) > MOST_UNKNOWNS:
        return
    rows = query.rows(_invented(claims, scene.setting), np.arange(len(claims)))
    unsure = np.full(query.size, query.release.resolution * np.sqrt(scene.patients))
    guess = np.full(len(claims), scene.patients / len(claims))
    found = whole_numbers(rows.T, reply, unsure, guess)
    if found is not None:
        for claim, number in zip(claims, found.tolist(), strict=True):
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
