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
    intervals: IntArray
    event: BoolArray
    half: BoolArray

    @property
    def reach(self) -> IntArray:
        """In how many intervals each counts."""
        return self.intervals + self.half

    def blocks(self, intervals: int) -> Iterator[tuple[int, _Patients]]:
        """Where each block of them starts, and the block."""
        size = max(1, _CELLS // max(1, intervals))
        for start in range(0, self.event.size, size):
            part = slice(start, start + size)
            parts = self.predictor[part], self.intervals[part], self.event[part]
            yield start, _Patients(*parts, self.half[part])

    def at_risk(self, first: int, end: int) -> FloatArray:
        """How much cells (interval, patient) count: one, or one half, or nothing.

        In the intervals from `first` on and before `end`; before `first` all of them pass.
        """
        counts = (np.arange(first, end)[:, None] < self.intervals).astype(np.float64)
        half = np.flatnonzero(self.half)
        counts[self.intervals[half] - first, half] = 0.5
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
        patients = _ordered(cohort, placed, scaling, beta, rows)
        shares = list(_shares(patients, link, alpha))
    return float(np.max(shares))  # not a number, if one of them is none


def _shares(patients: _Patients, link: AbstractLink, alpha: FloatArray) -> Iterator[float]:
    total, largest = np.zeros((2, 3, alpha.size))
    whole, happened = np.zeros((3, patients.event.size)), np.zeros(patients.event.size)
    for start, block in patients.blocks(alpha.size):
        depth, passed = int(block.reach[0]), int(block.intervals.min())
        weights = _weights(link, alpha[:depth], block.predictor)
        weights[:, passed:] *= block.at_risk(passed, depth)
        total[:, :depth] += weights.sum(axis=2)
        np.maximum(largest[:, :depth], weights.max(axis=2), out=largest[:, :depth])
        whole[:, start : start + block.event.size] = weights.sum(axis=1)
        event = np.flatnonzero(block.event)  # in the last interval at risk
        happened[start + event] = weights[_FALLING, block.intervals[event] - 1, event]
    yield _share(whole.max(axis=1), whole.sum(axis=1))
    if np.count_nonzero(patients.event) >= _ENOUGH_EVENTS:
        yield _share(happened.max(), happened.sum())
    # The median, and not the mean, which a few far-off patients make as large as they like.
    median = _weights(link, alpha, np.median(patients.predictor, keepdims=True))[:, :, 0]
    number = np.searchsorted(-patients.reach, -np.arange(alpha.size))
    yield _share(largest, total + _missing(number) * median)
    yield _share_of_events(patients, happened, median[_FALLING])


def _share_of_events(patients: _Patients, happened: FloatArray, median: FloatArray) -> float:
    """Among the events of each interval."""
    event = np.flatnonzero(patients.event)
    interval, largest, total = patients.intervals[event] - 1, *np.zeros((2, median.size))
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
    cohort: Cohort, placed: TimeAtRisk, scaling: Scaling, beta: FloatArray, rows: IntArray
) -> _Patients:
    reach = placed.intervals[rows] + placed.half[rows]
    rows = rows[np.argsort(-reach, kind="stable")]
    predictor = np.empty(rows.size)
    size = max(1, _CELLS // max(1, beta.size))
    for start in range(0, rows.size, size):
        part = slice(start, start + size)
        covariates = cohort.covariates[rows[part]]
        scaled = np.empty((covariates.shape[0], beta.size))
        scaling.apply(covariates, out=scaled, complete=cohort.complete)
        predictor[part] = scaled @ beta
    return _Patients(predictor, placed.intervals[rows], placed.event[rows], placed.half[rows])
