"""A second opinion: the stack written out patient by patient, and statsmodels' GLM on it.

Nothing here calls fedcox, so that a fault in its grid or its stack cannot hide.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import statsmodels.api as sm

from fedcox.survival.cohort import BoolArray, FloatArray, IntArray

#: The links that statsmodels has, by our names.
GLM_LINKS = {"cloglog": sm.families.links.CLogLog, "logit": sm.families.links.Logit}
CENSORED_WEIGHT = {"include": 1.0, "exclude": 0.0, "half": 0.5}


@dataclass(frozen=True, eq=False)
class Rows:
    """One row per patient and interval at risk, in the patients' order."""

    patient: IntArray
    interval: IntArray
    event: FloatArray
    weight: FloatArray
    intervals: int

    def within(self, fitted: BoolArray) -> Rows:
        """The rows of these intervals alone, which are numbered anew."""
        inside = fitted[self.interval]
        place = (np.cumsum(fitted) - 1)[self.interval[inside]]
        own = self.patient[inside], place, self.event[inside], self.weight[inside]
        return Rows(*own, int(fitted.sum()))

    @property
    def events_per_interval(self) -> FloatArray:
        weight = self.weight * self.event
        return np.bincount(self.interval, weight, self.intervals).astype(np.float64)

    @property
    def at_risk_per_interval(self) -> FloatArray:
        return np.bincount(self.interval, self.weight, self.intervals).astype(np.float64)


@dataclass(frozen=True, eq=False)
class Reference:
    """What a binomial GLM says: one intercept per informative interval, then the covariates."""

    informative: IntArray  # which intervals have an intercept
    alpha: FloatArray
    coef: FloatArray
    se: FloatArray
    z: FloatArray
    p: FloatArray
    low: FloatArray
    high: FloatArray
    log_likelihood: float


def by_width(
    time: Sequence[float],
    event: Sequence[bool],
    width: float,
    reading: str,
    horizon: float | None = None,
) -> Rows:
    """Intervals (0, Q], (Q, 2Q], … up to the horizon, by two plain loops; whole numbers."""
    end = max(time) if horizon is None else horizon
    intervals = math.ceil(end / width)
    rows: list[tuple[int, int, float, float]] = []
    for i, (t, happened) in enumerate(zip(time, event, strict=True)):
        own = max(math.ceil(t / width), 1)
        for m in range(1, intervals + 1):
            if t > end or m < own:
                rows.append((i, m - 1, 0.0, 1.0))
            elif m == own:
                weight = 1.0 if happened else CENSORED_WEIGHT[reading]
                rows.append((i, m - 1, float(happened), weight))
    return _rows(rows, intervals)


def by_event_times(time: Sequence[float], event: Sequence[bool], reading: str) -> Rows:
    """An instant at every distinct event time, with everyone observed that long at risk."""
    instants = sorted({t for t, happened in zip(time, event, strict=True) if happened})
    rows: list[tuple[int, int, float, float]] = []
    for i, (t, happened) in enumerate(zip(time, event, strict=True)):
        for m, instant in enumerate(instants):
            if t > instant:
                rows.append((i, m, 0.0, 1.0))
            elif t == instant:
                weight = 1.0 if happened else CENSORED_WEIGHT[reading]
                rows.append((i, m, float(happened), weight))
    return _rows(rows, len(instants))


def by_pieces(
    time: Sequence[float], event: Sequence[bool], bounds: Sequence[float], unit: float = 0.0
) -> Rows:
    """Pieces between `bounds`, each row weighing the share of it that was lived through.

    In whole units events stand at the middle of theirs, and the censored at the end.
    """
    rows: list[tuple[int, int, float, float]] = []
    for i, (t, happened) in enumerate(zip(time, event, strict=True)):
        place = t - 0.5 * unit * happened
        for m, (low, high) in enumerate(pairwise(bounds)):
            if place > low:
                part = (min(place, high) - low) / (high - low)
                rows.append((i, m, float(happened and place <= high), part))
    return _rows(rows, len(bounds) - 1)


def _rows(rows: list[tuple[int, int, float, float]], intervals: int) -> Rows:
    kept = [row for row in rows if row[3] > 0]
    patient, interval, event, weight = (np.array(column) for column in zip(*kept, strict=True))
    return Rows(patient, interval, event, weight, intervals)


def informative(rows: Rows) -> IntArray:
    """Intervals with an event and with someone who did not have it."""
    events, at_risk = rows.events_per_interval, rows.at_risk_per_interval
    return np.flatnonzero((events > 0) & (at_risk > events))


def design(rows: Rows, covariates: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Design matrix, response and weights of the rows in informative intervals."""
    kept = informative(rows)
    inside = np.isin(rows.interval, kept)
    indicators = (rows.interval[inside, None] == kept[None, :]).astype(np.float64)
    matrix = np.hstack([indicators, covariates[rows.patient[inside]]])
    return matrix, rows.event[inside], rows.weight[inside]


def binomial_glm(rows: Rows, covariates: FloatArray, link: str) -> Reference:
    """Fit the stack with statsmodels, to the last digits it can give."""
    matrix, response, weight = design(rows, covariates)
    kept = informative(rows)
    fitted = _glm(response, matrix, weight, link)
    bounds = np.asarray(fitted.conf_int(0.05))[kept.size :]
    return Reference(
        kept,
        fitted.params[: kept.size],
        fitted.params[kept.size :],
        fitted.bse[kept.size :],
        fitted.tvalues[kept.size :],
        fitted.pvalues[kept.size :],
        bounds[:, 0],
        bounds[:, 1],
        float(fitted.llf),
    )


def poisson_glm(rows: Rows, covariates: FloatArray, event_weight: float = 1.0) -> FloatArray:
    """Intercepts of all pieces, each of which has an event, then the covariates."""
    indicators = (rows.interval[:, None] == np.arange(rows.intervals)).astype(np.float64)
    model = sm.GLM(
        event_weight * rows.event,
        np.hstack([indicators, covariates[rows.patient]]),
        family=sm.families.Poisson(),
        offset=np.log(rows.weight),
    )
    fitted = model.fit(tol=1e-11, tol_criterion="params", maxiter=200)
    return np.asarray(fitted.params)


def null_log_likelihood(rows: Rows, link: str) -> float:
    """The same without covariates."""
    return binomial_glm(rows, np.empty((rows.patient.max() + 1, 0)), link).log_likelihood


def _glm(response: FloatArray, matrix: FloatArray, weight: FloatArray, link: str):  # type: ignore[no-untyped-def]
    family = sm.families.Binomial(GLM_LINKS[link]())
    model = sm.GLM(response, matrix, family=family, freq_weights=weight)
    return model.fit(tol=1e-11, tol_criterion="params", maxiter=200)
