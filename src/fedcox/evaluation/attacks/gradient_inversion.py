"""Whose covariates explain these sums? Nonlinear least squares for a few patients at once.

The sums of g patients with P covariates at many points are more equations than the g · P
unknowns. Where the outcomes of the patients are known – a life table tells them – solving the
equations gives the patients: all of a small center, or those at the end of time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import least_squares

from fedcox.evaluation.attacks.attack_setting import Candidate
from fedcox.evaluation.attacks.observed_sums import LifeTable, ObservedSource, ObservedSums
from fedcox.survival.cohort import BoolArray, FloatArray, IntArray
from fedcox.survival.derivatives import risk_of
from fedcox.survival.link import AbstractLink

_EVALUATIONS = 150  # of the sums, from each start
_STARTS = 6
_STEP = 1e-5  # in θ, for the slope of the curvature
_ROUNDING = 1e-14  # of a sum, relative
_CERTAIN = 1e-2  # an error the attacker expects in a covariate, at most
#: Patients who leave in one interval and are still told apart.
MOST_AT_ONCE = 12
#: Patients of a center that is still small.
SMALL_CENTER = 10


@dataclass(frozen=True, eq=False)
class GroupOutcomes:
    """In how many fitted intervals each patient is at risk, and whether an event ends that."""

    intervals: IntArray  # (patients,)
    event: BoolArray  # (patients,)


@dataclass(frozen=True, eq=False)
class _Cells:
    """Slope and curvatures of every cell: (points, intervals, patients)."""

    slope: FloatArray
    observed: FloatArray
    sent: FloatArray  # observed, or expected where a point was asked for that


def sums_of(
    link: AbstractLink, sums: ObservedSums, outcomes: GroupOutcomes, x: FloatArray
) -> ObservedSums:
    """What patients with covariates `x` (patients, columns) add to the sums at every point."""
    every = np.arange(sums.alpha.shape[1])
    cells = _cells(link, sums, outcomes, x, every)
    return ObservedSums(
        sums.alpha,
        sums.beta,
        slope=cells.slope.sum(axis=2),
        beta_slope=cells.slope.sum(axis=1) @ x,
        expected=sums.expected,
        curved=sums.curved,
        curvature=cells.sent[sums.curved].sum(axis=2),
        crossed=sums.crossed,
        cross=cells.sent[sums.crossed] @ x,
    )


def fit_group(
    link: AbstractLink,
    sums: ObservedSums,
    outcomes: GroupOutcomes,
    intervals: IntArray,
    *,
    whole: bool,
    rng: np.random.Generator,
) -> FloatArray | None:
    """Covariates (patients, columns) that explain the sums in `intervals`; None if unclear.

    `whole` says that the patients are all there are, so that the slope in β is theirs too.
    Clear means: the sums are met, and an error in them would move no covariate by much.
    """
    problem = _Problem(link, sums, outcomes, intervals, whole)
    if problem.equations < problem.unknowns:
        return None
    for start in range(_STARTS):
        alone = outcomes.intervals.size == 1 and start == 0
        # Patients of one kind are alike to the sums: from one place they would never part.
        x = np.zeros(problem.unknowns) if alone else rng.normal(size=problem.unknowns)
        with np.errstate(all="ignore"):
            solution = least_squares(
                problem.residuals,
                x,
                problem.jacobian,
                method="lm",
                xtol=1e-15,
                ftol=1e-15,
                gtol=1e-15,
                max_nfev=_EVALUATIONS,
            )
        if problem.clear(solution.x):
            return np.asarray(solution.x.reshape(problem.shape))
        if alone:
            return None  # one patient's slope is monotone in β·x: no other start helps
    return None


@dataclass(frozen=True, eq=False)
class _Problem:
    """Residuals of the sums, and their derivatives in the covariates."""

    link: AbstractLink
    sums: ObservedSums
    outcomes: GroupOutcomes
    intervals: IntArray
    whole: bool

    @property
    def shape(self) -> tuple[int, int]:
        return self.outcomes.intervals.size, self.sums.beta.shape[1]

    @property
    def unknowns(self) -> int:
        return self.shape[0] * self.shape[1]

    @property
    def equations(self) -> int:
        return int(self._target().size)

    def residuals(self, flat: FloatArray) -> FloatArray:
        return self._clean(self._sums(flat.reshape(self.shape)) - self._target())

    def jacobian(self, flat: FloatArray) -> FloatArray:
        x = flat.reshape(self.shape)
        sums = self.sums
        here = _cells(self.link, sums, self.outcomes, x, self.intervals)
        up = _cells(self.link, sums, self.outcomes, x, self.intervals, _STEP)
        down = _cells(self.link, sums, self.outcomes, x, self.intervals, -_STEP)
        bend = (up.sent - down.sent) / (2.0 * _STEP)  # of the curvature, in θ
        beta = sums.beta
        slope = here.observed[..., None] * beta[:, None, None, :]
        curved = sums.curved
        curvature = bend[curved][..., None] * beta[curved][:, None, None, :]
        crossed = sums.crossed
        # Σ w x: w moves with θ, and x itself moves.
        outer = np.einsum("rmi,ip,rq->rmpiq", bend[crossed], x, beta[crossed])
        outer += np.einsum("rmi,pq->rmpiq", here.sent[crossed], np.eye(self.shape[1]))
        rows = [part.reshape(-1, self.unknowns) for part in (slope, curvature, outer)]
        if self.whole:
            weights, slopes = (
                here.observed.sum(axis=1),
                here.slope.sum(axis=1),
            )  # (points, people)
            total = np.einsum("ri,ip,rq->rpiq", weights, x, beta)
            total += np.einsum("ri,pq->rpiq", slopes, np.eye(self.shape[1]))
            rows.append(total.reshape(-1, self.unknowns))
        return self._clean(np.concatenate(rows))

    def clear(self, flat: FloatArray) -> bool:
        """Whether the sums are met, and met by these covariates alone."""
        jacobian = self.jacobian(flat)
        smallest = float(np.linalg.svd(jacobian, compute_uv=False)[-1])
        noise = self.residuals(flat)
        rounding = _ROUNDING * float(np.abs(self._target()).max(initial=0.0))
        error = max(float(np.sqrt(noise @ noise)), rounding * np.sqrt(noise.size))
        return smallest > 0.0 and error / smallest < _CERTAIN

    def _sums(self, x: FloatArray) -> FloatArray:
        cells = _cells(self.link, self.sums, self.outcomes, x, self.intervals)
        parts = [
            cells.slope.sum(axis=2),
            cells.sent[self.sums.curved].sum(axis=2),
            cells.sent[self.sums.crossed] @ x,
        ]
        if self.whole:
            parts.append(cells.slope.sum(axis=1) @ x)
        return np.concatenate([part.ravel() for part in parts])

    def _target(self) -> FloatArray:
        sums, at = self.sums, self.intervals
        parts = [sums.slope[:, at], sums.curvature[:, at], sums.cross[:, at]]
        if self.whole:
            parts.append(sums.beta_slope)
        return np.concatenate([part.ravel() for part in parts])

    def _clean(self, values: FloatArray) -> FloatArray:
        """Finite: a search that runs off is turned back, not ended."""
        return np.nan_to_num(values, nan=1e150, posinf=1e150, neginf=-1e150)


def _cells(
    link: AbstractLink,
    sums: ObservedSums,
    outcomes: GroupOutcomes,
    x: FloatArray,
    intervals: IntArray,
    shift: float = 0.0,
) -> _Cells:
    with np.errstate(all="ignore"):
        theta = sums.alpha[:, intervals, None] + (sums.beta @ x.T)[:, None, :] + shift
        v = risk_of(theta)
        at_risk = intervals[:, None] < outcomes.intervals
        event = (intervals[:, None] == outcomes.intervals - 1) & outcomes.event
        without, having = link.at_risk(v), link.event(v)
        slope = np.where(event, having.slope, without.slope) * at_risk
        observed = np.where(event, having.curvature, without.curvature) * at_risk
        expected = sums.expected[:, None, None]
        sent = np.where(expected, link.information(v) * at_risk, observed)
    return _Cells(slope, observed, sent)


def peel_tail(
    source: ObservedSource, rng: np.random.Generator, most_at_once: int = MOST_AT_ONCE
) -> list[Candidate]:
    """Patients found from the last interval backwards, until too many leave at once.

    Halves of patients are not told from whole ones, so the reading "half" ends it at once.

    Patients are peeled off the end of time, one interval after the other. In the last interval
    few patients are at risk. Their sums at many points give their covariates; what they add to
    the interval before is then known, and the patients who leave there stand alone. Nobody has
    to ask anything unusual, and a sum over centers does not help: it is the sum of one large
    center.
    """
    setting, sums = source.setting, source.sums
    claims: list[Candidate] = []
    if setting.reading == "half":
        return claims
    for interval in reversed(range(setting.intervals)):
        leaving = leaving_in(source.table, interval)
        if not leaving.intervals.size:
            continue
        if leaving.intervals.size > most_at_once:
            break
        covariates = fit_group(
            setting.link, sums, leaving, np.array([interval]), whole=False, rng=rng
        )
        if covariates is None:
            break
        # The logit link's slopes of those with and without the event differ by a constant.
        unsure = setting.link.canonical and np.unique(leaving.event).size > 1
        claims += [
            Candidate(x, int(intervals), None if unsure else bool(event))
            for x, intervals, event in zip(
                covariates, leaving.intervals, leaving.event, strict=True
            )
        ]
        sums = sums.less(sums_of(setting.link, sums, leaving, covariates))
    return claims


def leaving_in(table: LifeTable, interval: int) -> GroupOutcomes:
    """The patients who are at risk in an interval and not in the next, by a life table."""
    people = round(float(table.leaving[interval]))
    events = min(int(table.events[interval]), people)
    return GroupOutcomes(
        np.full(people, interval + 1, dtype=np.int64), np.arange(people) < events
    )


def everyone(table: LifeTable) -> GroupOutcomes:
    """The outcomes of all patients, as a life table has them."""
    parts = [leaving_in(table, interval) for interval in range(table.events.size)]
    return GroupOutcomes(
        np.concatenate([part.intervals for part in parts]),
        np.concatenate([part.event for part in parts]),
    )


def invert_small_center(
    source: ObservedSource, rng: np.random.Generator, most: int = SMALL_CENTER
) -> list[Candidate]:
    """Everyone who is at risk in a fitted interval; the life table tells their outcomes.

    None of them where there are more than `most`, or where censored patients count one half.
    """
    setting = source.setting
    outcomes = everyone(source.table)
    if setting.reading == "half" or not 0 < outcomes.intervals.size <= most:
        return []
    depth = int(outcomes.intervals.max())
    covariates = fit_group(
        setting.link, source.sums, outcomes, np.arange(depth), whole=True, rng=rng
    )
    if covariates is None:
        return []
    return [
        Candidate(x, int(intervals), bool(event))
        for x, intervals, event in zip(
            covariates, outcomes.intervals, outcomes.event, strict=True
        )
    ]
