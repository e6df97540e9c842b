"""One patient by the difference of two studies, one hospital by that of two sets of centers.

A second study with one more column leaves out whoever has no value there (`missing = "drop"`):
exact sums of both differ by these patients. And a second job that calls a hospital lost asks
the same questions of the others: the difference is that hospital's own sums, whatever secure
sums hid, and its patients follow by whole numbers.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import reduce
from typing import Any

import numpy as np

from fedcox.evaluation.attacks.candidate import Candidate
from fedcox.evaluation.attacks.looks import LifeTable
from fedcox.evaluation.attacks.observer import Exchange, Observer
from fedcox.evaluation.attacks.read_out import read_out
from fedcox.evaluation.attacks.scene import Scene
from fedcox.federation.queries.bounded_sums import NoisedMoments
from fedcox.federation.queries.covariate_sums import CovariateSums
from fedcox.federation.queries.interval_counts import IntervalCounts
from fedcox.federation.query import AbstractAdditiveQuery, AbstractQuery
from fedcox.study.fit_file import fit_text
from fedcox.study.fitted import FittedStudy
from fedcox.survival.cohort import FloatArray
from fedcox.survival.scaling import Scaling


def subtract_studies(scene: Scene) -> Iterator[Candidate]:
    """Whoever sees the sums of a study, and of the same without one patient."""
    deadline = scene.deadline()
    for patient in scene.left_out():
        deadline.check()
        whole, without = scene.begin(), scene.begin(patient=patient)
        if scene.noised:
            yield from _by_noised_sums(scene, whole, without)
            continue
        both = [_total(observer, CovariateSums()) for observer in (whole, without)]
        covariates = both[0].total - both[1].total
        life = IntervalCounts(scene.setting.grid, scene.setting.reading)
        counts = [_total(observer, life) for observer in (whole, without)]
        at_risk = (counts[0].reached - counts[1].reached)[scene.setting.active]
        happened = (counts[0].events - counts[1].events)[scene.setting.active]
        yield Candidate(
            _scaled(scene.setting.scaling, covariates),
            round(float(at_risk.sum())),
            bool(happened.sum() > 0.5),
        )


def _by_noised_sums(scene: Scene, whole: Observer, without: Observer) -> Iterator[Candidate]:
    for exchange in scene.exchanges:
        if isinstance(exchange.query, NoisedMoments):
            scaling, numbers = exchange.query.scaling, exchange.query.are_numbers.size
            moved = _total(whole, exchange.query) - _total(without, exchange.query)
            raw = scaling.mean + scaling.spread * moved[:numbers]
            yield Candidate(_scaled(scene.setting.scaling, raw))


def _scaled(scaling: Scaling, covariates: FloatArray) -> FloatArray:
    return np.asarray((covariates[scaling.keep] - scaling.mean) / scaling.spread)


def _total(observer: Observer, query: AbstractQuery[Any]) -> Any:
    return reduce(query.combine, observer.replies(query).values())


def subtract_results(scene: Scene) -> Iterator[Candidate]:
    """Whoever reads the released files of a study, and of the same without one patient."""
    deadline, whole = scene.deadline(), None
    for patient in scene.left_out():
        deadline.check()
        whole = _released(scene.release(None)) if whole is None else whole
        without = _released(scene.release(patient))
        patients = whole["patients"] or scene.patients
        means = [
            np.array([row["mean"] for row in one["coefficients"]], dtype=np.float64)
            for one in (whole, without)
        ]
        covariates = patients * means[0] - (patients - 1) * means[1]
        event = None
        if whole["events"] is not None:
            event = whole["events"] > without["events"]
        yield Candidate(_scaled(scene.setting.scaling, covariates), None, event)


def _released(fitted: FittedStudy) -> dict[str, Any]:
    """What stands in fit.json, with the digits that it has there."""
    record: dict[str, Any] = json.loads(fit_text(fitted))
    return record


def subtract_centers(scene: Scene) -> Iterator[Candidate]:
    """Ask all questions of the study again, of all hospitals but one, and subtract."""
    deadline = scene.deadline()
    life = IntervalCounts(scene.setting.grid, scene.setting.reading)
    counts = None if scene.noised else _total(scene.begin(), life)
    for name in scene.centers:
        observer, own, tables = scene.begin(center=name), [], {}
        for exchange in scene.exchanges:
            deadline.check()
            query = exchange.query
            if isinstance(query, AbstractAdditiveQuery):
                whole = reduce(query.combine, exchange.replies.values())
                rest = _total(observer, query)
                own.append(Exchange(query, {name: _less(query, whole, rest)}))
        if counts is not None:
            left = _less(life, counts, _total(observer, life))
            tables[name] = LifeTable.of(left, scene.setting)
        yield from read_out(scene, own, tables, deadline)


def _less(query: AbstractAdditiveQuery[Any], whole: Any, rest: Any) -> Any:
    return query.unpack(query.pack(whole) - query.pack(rest))
