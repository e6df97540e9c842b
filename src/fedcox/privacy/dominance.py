"""Does one patient make up most of a sum? The dominance rule of official statistics.

Patients enter a gradient with weights that depend on the parameters. Parameters can be chosen
so that one patient outweighs all others – a large coefficient and an unusual covariate are
enough – and then the sum is that patient, however many it is over.

Nor do other intervals hide anybody: two questions that differ in one interval's α differ by
that interval's sum alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fedcox.survival.cohort import BoolArray, Cohort, FloatArray, IntArray
from fedcox.survival.link import AbstractLink
from fedcox.survival.scaling import Scaling
from fedcox.survival.time_grid import TimeAtRisk

_CELLS = 16_384  # looked at together
_SMALLEST = np.finfo(np.float64).tiny
#: Among fewer, each has a large share of the events whatever the parameters.
_ENOUGH_EVENTS = 5
#: Two other centers of twenty patients are the least that a secure sum has by default.
_ENOUGH = 40
_FALLING = 1  # its place among the weights


@dataclass(frozen=True, eq=False)
class _Patients:
    """Some patients of a center, those at risk longest first."""

    predictor: FloatArray
    placed: TimeAtRisk
    link: AbstractLink

    @property
    def event(self) -> BoolArray:
        return self.placed.event

    @property
    def whole(self) -> IntArray:
        """In how many intervals each counts in full; grouped time has an event count so."""
        return self.placed.passed + (self.placed.event if self.link.grouped else 0)

    def blocks(self, intervals: int) -> Iterator[tuple[int, _Patients]]:
        """Where each block of them starts, and the block."""
        size = max(1, _CELLS // max(1, intervals))
        for start in range(0, self.event.size, size):
            rows = np.arange(start, min(start + size, self.event.size))
            yield start, _Patients(self.predictor[rows], self.placed.rows(rows), self.link)

    def at_risk(self, first: int, end: int) -> FloatArray:
        """How much cells (interval, patient) count: in full, in part, or not at all.

        In the intervals from `first` on and before `end`; before `first` all of them pass.
        """
        counts = (np.arange(first, end)[:, None] < self.whole).astype(np.float64)
        partly = np.flatnonzero(self.placed.part)
        counts[self.placed.passed[partly] - first, partly] = self.placed.part[partly]
        return counts


def largest_share(
    cohort: Cohort,
    placed: TimeAtRisk,
    scaling: Scaling,
    link: AbstractLink,
    alpha: FloatArray,
    beta: FloatArray,
    rows: IntArray | None = None,
) -> float:
    """The largest share of any patient in the sums that replies at (α, β) are made of.

    These are the slopes of the cost without the event and with it, and the expected
    information: at a hazard near zero the first, at a hazard near one the second, and between
    them the third can be one patient's. Over all intervals together, and in each of them. There
    a sum over fewer than forty counts as one over forty, where those who are missing are like
    the center's median patient: other centers have some, and among few each has a large share
    whatever the parameters.

    Over the whole cohort, or over some `rows` of it. Not a number where the parameters leave
    none.
    """
    if rows is None:
        rows = np.arange(cohort.patients)
    if not rows.size:
        return 0.0
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        patients = _ordered(cohort, placed, scaling, link, beta, rows)
        shares = list(_shares(patients, link, alpha))
    return float(np.max(shares))  # not a number, if one of them is none


def _shares(patients: _Patients, link: AbstractLink, alpha: FloatArray) -> Iterator[float]:
    total, largest = np.zeros((2, 3, alpha.size))
    whole, happened = np.zeros((3, patients.event.size)), np.zeros(patients.event.size)
    for start, block in patients.blocks(alpha.size):
        depth, passed = int(block.placed.intervals[0]), int(block.whole.min())
        weights = _weights(link, alpha[:depth], block.predictor)
        falling = weights[_FALLING].copy()  # of an event, however much time was at risk
        weights[:, passed:] *= block.at_risk(passed, depth)
        total[:, :depth] += weights.sum(axis=2)
        np.maximum(largest[:, :depth], weights.max(axis=2), out=largest[:, :depth])
        whole[:, start : start + block.event.size] = weights.sum(axis=1)
        event = np.flatnonzero(block.event)
        happened[start + event] = falling[block.placed.passed[event], event]
    yield _share(whole.max(axis=1), whole.sum(axis=1))
    if np.count_nonzero(patients.event) >= _ENOUGH_EVENTS:
        yield _share(happened.max(), happened.sum())
    # The median, and not the mean, which a few far-off patients make as large as they like.
    median = _weights(link, alpha, np.median(patients.predictor, keepdims=True))[:, :, 0]
    number = np.searchsorted(-patients.placed.intervals, -np.arange(alpha.size))
    yield _share(largest, total + _missing(number) * median)
    yield _share_of_events(patients, happened, median[_FALLING])


def _share_of_events(patients: _Patients, happened: FloatArray, median: FloatArray) -> float:
    """Among the events of each interval."""
    event = np.flatnonzero(patients.event)
    interval, largest, total = patients.placed.passed[event], *np.zeros((2, median.size))
    np.maximum.at(largest, interval, happened[event])
    np.add.at(total, interval, happened[event])
    number = np.bincount(interval, minlength=median.size)
    return _share(largest, total + _missing(number) * median)


def _missing(number: IntArray) -> IntArray:
    return np.maximum(_ENOUGH - number, 0)


def _share(largest: FloatArray, total: FloatArray) -> float:
    share = np.divide(largest, total, out=np.zeros_like(total), where=total != 0.0)
    return float(share.max(initial=0.0))


def _weights(link: AbstractLink, alpha: FloatArray, predictor: FloatArray) -> FloatArray:
    """Of each cell (interval, patient): both slopes, and the expected information."""
    weights = np.empty((3, alpha.size, predictor.size))
    v = np.exp(alpha[:, None] + predictor)
    np.maximum(v, _SMALLEST, out=v)  # a hazard of zero has no slope to speak of
    _, rising, _ = link.at_risk_sum(v)
    weights[0] = rising
    # Information is the product of the slopes, with and without the event, for either link.
    link.information(v, out=weights[2])
    np.divide(weights[2], rising, out=weights[_FALLING])
    return weights


def _ordered(
    cohort: Cohort,
    placed: TimeAtRisk,
    scaling: Scaling,
    link: AbstractLink,
    beta: FloatArray,
    rows: IntArray,
) -> _Patients:
    rows = rows[np.argsort(-placed.intervals[rows], kind="stable")]
    predictor = np.empty(rows.size)
    size = max(1, _CELLS // max(1, beta.size))
    for start in range(0, rows.size, size):
        part = slice(start, start + size)
        covariates = cohort.covariates[rows[part]]
        scaled = np.empty((covariates.shape[0], beta.size))
        scaling.apply(covariates, out=scaled, complete=cohort.complete)
        predictor[part] = scaled @ beta
    return _Patients(predictor, placed.rows(rows), link)
