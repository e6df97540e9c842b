"""Patients by differences: of two studies, of two sets of centers, and of two far points.

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

from fedcox.errors import SecureSumError
from fedcox.evaluation.attacks.attack_setting import AttackSetting, Candidate, Deadline
from fedcox.evaluation.attacks.observed_sums import LifeTable, ObservedAnswers, Observer
from fedcox.evaluation.attacks.read_out import read_out
from fedcox.federation.queries.bounded_sums import NoisedMoments
from fedcox.federation.queries.covariate_sums import CovariateSums
from fedcox.federation.queries.derivatives import DerivativesAt
from fedcox.federation.queries.interval_counts import IntervalCounts
from fedcox.federation.query import AbstractAdditiveQuery, AbstractQuery
from fedcox.federation.setting import Setting
from fedcox.study.fit_file import fit_text
from fedcox.study.fitted import FittedStudy
from fedcox.survival.cohort import FloatArray
from fedcox.survival.derivatives import Detail
from fedcox.survival.scaling import Scaling

_TURNS = 12  # of the direction, at most
_STEADY = 2e-3  # a covariate moves by less when nothing else is to be found
_FIRST_LENGTH, _LONGEST = 0.5, 500.0  # of β
_HIGHEST = 20.0  # log hazard that a sum in fixed point still holds
_LOWEST, _LARGEST_EXPONENT = 10.0, 300.0
_APART = 1.3  # of the two questions, in α


def subtract_studies(target: AttackSetting) -> Iterator[Candidate]:
    """Whoever sees the sums of a study, and of the same without one patient."""
    deadline = target.deadline()
    for patient in target.left_out():
        deadline.check()
        whole, without = target.begin(), target.begin(patient=patient)
        if target.noised:
            yield from _by_noised_sums(target, whole, without)
            continue
        both = [_total(observer, CovariateSums()) for observer in (whole, without)]
        covariates = both[0].total - both[1].total
        life = IntervalCounts(target.setting.grid, target.setting.reading)
        counts = [_total(observer, life) for observer in (whole, without)]
        at_risk = (counts[0].reached - counts[1].reached)[target.setting.active]
        happened = (counts[0].events - counts[1].events)[target.setting.active]
        yield Candidate(
            _scaled(target.setting.scaling, covariates),
            round(float(at_risk.sum())),
            bool(happened.sum() > 0.5),
        )


def _by_noised_sums(
    target: AttackSetting, whole: Observer, without: Observer
) -> Iterator[Candidate]:
    for exchange in target.exchanges:
        if isinstance(exchange.query, NoisedMoments):
            scaling, numbers = exchange.query.scaling, exchange.query.are_numbers.size
            moved = _total(whole, exchange.query) - _total(without, exchange.query)
            raw = scaling.mean + scaling.spread * moved[:numbers]
            yield Candidate(_scaled(target.setting.scaling, raw))


def _scaled(scaling: Scaling, covariates: FloatArray) -> FloatArray:
    return np.asarray((covariates[scaling.keep] - scaling.mean) / scaling.spread)


def _total(observer: Observer, query: AbstractQuery[Any]) -> Any:
    return reduce(query.combine, observer.replies(query).values())


def subtract_results(target: AttackSetting) -> Iterator[Candidate]:
    """Whoever reads the released files of a study, and of the same without one patient."""
    deadline, whole = target.deadline(), None
    for patient in target.left_out():
        deadline.check()
        whole = _released(target.release(None)) if whole is None else whole
        without = _released(target.release(patient))
        patients = whole["patients"] or target.patients
        means = [
            np.array([row["mean"] for row in one["coefficients"]], dtype=np.float64)
            for one in (whole, without)
        ]
        covariates = patients * means[0] - (patients - 1) * means[1]
        event = None
        if whole["events"] is not None:
            event = whole["events"] > without["events"]
        yield Candidate(_scaled(target.setting.scaling, covariates), None, event)


def _released(fitted: FittedStudy) -> dict[str, Any]:
    """What stands in fit.json, with the digits that it has there."""
    record: dict[str, Any] = json.loads(fit_text(fitted))
    return record


def subtract_centers(target: AttackSetting) -> Iterator[Candidate]:
    """Ask all questions of the study again, of all hospitals but one, and subtract."""
    deadline = target.deadline()
    life = IntervalCounts(target.setting.grid, target.setting.reading)
    counts = None if target.noised else _total(target.begin(), life)
    for name in target.centers:
        observer, exchanges, tables = target.begin(center=name), [], {}
        for exchange in target.exchanges:
            deadline.check()
            query = exchange.query
            if isinstance(query, AbstractAdditiveQuery):
                whole = reduce(query.combine, exchange.replies.values())
                rest = _total(observer, query)
                exchanges.append(ObservedAnswers(query, {name: _less(query, whole, rest)}))
        if counts is not None:
            left = _less(life, counts, _total(observer, life))
            tables[name] = LifeTable.of(left, target.setting)
        yield from read_out(target, exchanges, tables, deadline)


def _less(query: AbstractAdditiveQuery[Any], whole: Any, rest: Any) -> Any:
    return query.unpack(query.pack(whole) - query.pack(rest))


class _Walk:
    """Asks at one point after the other."""

    def __init__(self, observer: Observer, setting: Setting, deadline: Deadline) -> None:
        self._observer, self._setting, self._deadline = observer, setting, deadline
        self._without: dict[float, dict[str, tuple[FloatArray, float]]] = {}

    def mass(self, source: str, beta: FloatArray, height: float) -> FloatArray | None:
        """Mean covariates of a source, weighted by how much β raises the first hazard.

        `height` is the log hazard ratio of the outermost patient, who is to have a moderate
        hazard there.
        """
        low = max(height, _LOWEST)
        if low not in self._without:
            self._without[low] = self._first_interval(-low, np.zeros_like(beta))
        flat, here = self._without[low][source], self._first_interval(-low, beta)[source]
        weighted, weight = here[0] - flat[0], here[1] - flat[1]
        if not np.isfinite(weight) or weight <= 0.0:
            return None
        return np.asarray(weighted / weight)

    def _first_interval(
        self, low: float, beta: FloatArray
    ) -> dict[str, tuple[FloatArray, float]]:
        """Slopes in β and α that the first interval adds when its α is raised a little."""
        alpha = np.full(self._setting.intervals, low)
        raised = alpha.copy()
        raised[0] += _APART
        questions = [
            DerivativesAt(self._setting, at, beta, Detail.GRADIENT) for at in (alpha, raised)
        ]
        self._deadline.check()
        before, after = (self._observer.replies(question) for question in questions)
        return {
            name: (after[name].beta - sums.beta, float(after[name].alpha[0] - sums.alpha[0]))
            for name, sums in before.items()
        }


def probe_outermost(
    observer: Observer,
    setting: Setting,
    sources: list[str],
    directions: int,
    deadline: Deadline,
) -> Iterator[Candidate]:
    """The outermost patients of each source along the first `directions` columns, both ways.

    A cheating coordinator turns β until one patient outweighs all others. Far out along a
    direction the hazard of the outermost patient dwarfs the rest, and slopes in β over slopes
    in α are that patient's covariates. Turning the direction towards what was found sets the
    patient further apart from the others, so that even coefficients of a modest size are
    enough. A coarse grid does not help.
    """
    walk = _Walk(observer, setting, deadline)
    for source in sources:
        claimed: list[FloatArray] = []
        for start in _directions(setting.columns, directions):
            patient = _outermost(walk, source, start, setting)
            if patient is not None and not any(_same(patient, other) for other in claimed):
                claimed.append(patient)
                yield Candidate(patient)


def _directions(columns: int, number: int) -> Iterator[FloatArray]:
    for column in range(min(columns, (number + 1) // 2)):
        for sign in (1.0, -1.0):
            yield sign * np.eye(columns)[column]


def _outermost(
    walk: _Walk, source: str, direction: FloatArray, setting: Setting
) -> FloatArray | None:
    """Turn towards the outermost patient and go further out, until nobody else counts."""
    length, before = _FIRST_LENGTH, None
    distance = 3.0  # of the outermost patient along the direction, guessed at first
    for _ in range(_TURNS):
        try:
            here = walk.mass(source, length * direction, length * distance)
        except SecureSumError:
            length *= 0.5  # out of the range of a sum in fixed point: not so far
            continue
        if here is None:
            return None
        if before is not None and _same(here, before):
            return here
        before, distance = here, float(np.linalg.norm(here))
        if distance < _STEADY:
            return None
        direction = here / distance
        # With the logit link many patients beyond α's reach have a hazard of one, alike.
        above = 0.0 if setting.link.name == "logit" else _HIGHEST
        length = min(2.0 * length, _LONGEST, (_LARGEST_EXPONENT + above) / distance)
    return None


def _same(left: FloatArray, right: FloatArray) -> bool:
    return float(np.abs(left - right).max()) < _STEADY
