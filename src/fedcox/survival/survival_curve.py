"""From baseline and log risk to survival: S(t | x), medians, and how sure they are.

In grouped time a baseline is one `alpha` per interval, the link's value at covariates zero, and
survival is known at the interval ends. An interval whose hazard is zero for everyone has alpha
= -inf, one whose hazard is one has +inf; both are exact here, so nobody needs a stand-in such
as -28. With a hazard that is constant within pieces survival is known at any time up to the
horizon, and at none beyond.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fedcox.errors import StudyError
from fedcox.survival.cohort import FloatArray, IntArray
from fedcox.survival.link import AbstractLink

_ROUNDING = 1e-9
#: A log risk as high as this is certain death at the first chance of it.
_HIGHEST = 600.0


@dataclass(frozen=True, eq=False)
class StepFunction:
    """y[i] from x[i] up to the next step; `before` from zero to the first, nothing after `end`.

    >>> curve = StepFunction(np.array([1.0, 2.0]), np.array([0.9, 0.5]), before=1.0, end=3.0)
    >>> curve([0.5, 1.0, 3.0])
    array([1. , 0.9, 0.5])
    """

    x: FloatArray
    y: FloatArray
    before: float
    end: float

    @property
    def domain(self) -> tuple[float, float]:
        """The first and the last time at which the curve is known."""
        return 0.0, self.end

    def __call__(self, at: ArrayLike) -> FloatArray:
        """The curve at these times; a ValueError where one of them lies outside `domain`."""
        times = np.asarray(at, dtype=np.float64)
        outside = ~((times >= 0) & (times <= self.end * (1 + _ROUNDING)))  # NaN is outside
        if outside.any():
            raise ValueError(
                f"{int(outside.sum())} of {times.size} times lie outside 0 to {self.end:g}, "
                "where the curve is known. Ask within its domain."
            )
        position = steps_reached(self.x, times)
        return np.asarray(np.concatenate([[self.before], self.y])[position])


def steps_reached(x: FloatArray, at: FloatArray) -> IntArray:
    """How many steps lie at or before each time, where rounding of a step's place is forgiven.

    Three intervals of 0.1 end at 0.30000000000000004; a reader who asks at 0.3 means that end.
    """
    return np.searchsorted(x, at + _ROUNDING * np.abs(at), side="right")


@dataclass(frozen=True, eq=False)
class PiecewiseHazard:
    """A baseline hazard that is constant within pieces, at covariates zero.

    bounds      (pieces + 1,) of the pieces, from zero on
    hazard      (pieces,) per unit of time, zero where there was no event
    """

    bounds: FloatArray
    hazard: FloatArray

    @property
    def steps(self) -> FloatArray:
        """The cumulative hazard at every bound."""
        return np.append(0.0, np.cumsum(self.hazard * np.diff(self.bounds)))

    def cumulative(self, times: FloatArray) -> FloatArray:
        """The hazard summed from zero to each time; NaN beyond the horizon.

        >>> PiecewiseHazard(np.array([0.0, 2.0, 4.0]), np.array([0.1, 0.2])).cumulative(
        ...     np.array([1.0, 3.0, 5.0])
        ... )
        array([0.1, 0.4, nan])
        """
        # A horizon of three tenths is 0.30000000000000004 where three tenths are added up.
        horizon = self.bounds[-1] * (1.0 + 1e-9)
        inside = np.interp(times, self.bounds, self.steps)
        return np.where(times <= horizon, inside, np.nan)

    def survival(self, log_risk: FloatArray, times: FloatArray) -> FloatArray:
        """S at each time for each log risk: (patients, times); NaN beyond the horizon."""
        return np.asarray(np.exp(-self.cumulative(times) * _risk(log_risk)[:, None]))

    def time_at(self, cumulative: FloatArray) -> FloatArray:
        """When the cumulative hazard comes to this; NaN where that is beyond the horizon.

        However little it is, nothing comes to it before something can happen.
        """
        steps, cumulative = self.steps, np.maximum(cumulative, np.finfo(np.float64).tiny)
        # The first bound at which it is reached: in the piece before it something happens.
        piece = np.clip(np.searchsorted(steps, cumulative) - 1, 0, self.hazard.size - 1)
        with np.errstate(divide="ignore", invalid="ignore"):
            time = self.bounds[piece] + (cumulative - steps[piece]) / self.hazard[piece]
        return np.where(cumulative <= steps[-1], time, np.nan)


def _risk(log_risk: FloatArray) -> FloatArray:
    """Its exponential, kept finite: times no hazard at all it is no hazard."""
    return np.asarray(np.exp(np.minimum(log_risk, _HIGHEST)))


@dataclass(frozen=True, eq=False)
class HazardCurve:
    """One patient's cumulative hazard over time, or survival, as a callable.

    It follows the model between the bounds of the pieces, and knows nothing beyond the last.
    """

    baseline: PiecewiseHazard
    log_risk: float
    survival: bool

    @property
    def domain(self) -> tuple[float, float]:
        """From when to when it can be asked."""
        return 0.0, float(self.baseline.bounds[-1])

    @property
    def x(self) -> FloatArray:
        """The bounds of the pieces."""
        return self.baseline.bounds

    @property
    def y(self) -> FloatArray:
        """The values at `x`."""
        return self(self.x)

    def __call__(self, at: ArrayLike) -> FloatArray:
        times = np.asarray(at, dtype=np.float64)
        cumulative = self.baseline.cumulative(times)
        if np.isnan(cumulative).any() or not (times >= 0).all():
            raise ValueError(
                f"The curve is known from 0 to {self.domain[1]:g}; some time asked for is not."
            )
        hazard = _risk(np.asarray(self.log_risk)) * cumulative
        return np.asarray(np.exp(-hazard) if self.survival else hazard)


@dataclass(frozen=True, eq=False)
class CurveError:
    """What the errors of survival curves come from, at a few values of the cumulative hazard.

    All at mean covariates, with a_k the hazard of piece k and x̄_k the mean, over those at risk
    in it weighted by their risk, of covariates less their mean over everyone:

    hazard      (points,) Λ = Σ a_k, increasing from zero
    variance    (points,) Σ a_k² / d_k: that of Λ if the coefficients were known
    mean        (points, columns) Σ a_k x̄_k
    every       whether every piece ends at a point

    For x, with q = Λ x − Σ a_k x̄_k, the variance of Λ exp(β·x) is exp(2 β·x) (variance +
    q' Cov(β) q). Between points the mean goes along with Λ, and so does the variance where
    there are pieces between them; within one piece it goes along with the square.
    """

    hazard: FloatArray
    variance: FloatArray
    mean: FloatArray
    every: bool

    def relative(self, hazard: FloatArray, x: FloatArray, covariance: FloatArray) -> FloatArray:
        """The standard error of log Λ(t | x): (patients, times).

        `hazard` is Λ at mean covariates, (times,); `x` has the covariates less their mean,
        (patients, columns), and `covariance` is that of their coefficients.
        """
        place = np.interp(hazard, self.hazard, np.arange(self.hazard.size))
        share = place - np.floor(place)
        square = np.floor(place) + (share**2 if self.every else share)
        variance = np.interp(square, np.arange(self.hazard.size), self.variance)
        mean = np.stack(
            [np.interp(hazard, self.hazard, column) for column in self.mean.T], axis=-1
        )
        q = hazard[:, None] * x[:, None, :] - mean  # (patients, times, columns)
        # Before the first event between two points no more is unknown than one event tells.
        variance = np.minimum(variance, hazard**2)
        total = variance + np.einsum("ptj,jk,ptk->pt", q, covariance, q)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(np.where(hazard > 0, np.sqrt(total) / hazard, 0.0))


def interval_hazard(
    alpha: FloatArray, log_risk: FloatArray, *, link: AbstractLink
) -> FloatArray:
    """The chance of the event in each interval, given that it was reached.

    `alpha` is (intervals,), `log_risk` (patients,); the answer is (patients, intervals).
    """
    with np.errstate(over="ignore"):  # exp(large) = inf is a hazard of exactly one
        return link.hazard(log_risk[:, None] + alpha[None, :])


def cumulative_hazard(
    alpha: FloatArray, log_risk: FloatArray, *, link: AbstractLink
) -> FloatArray:
    """-log S at the end of each interval: the summed cost of surviving every one up to it.

    `alpha` is (intervals,), `log_risk` (patients,); the answer is (patients, intervals).
    """
    with np.errstate(over="ignore"):
        v = np.exp(log_risk[:, None] + alpha[None, :])
    return np.cumsum(link.cost(v), axis=1, dtype=np.float64)


def survival(alpha: FloatArray, log_risk: FloatArray, *, link: AbstractLink) -> FloatArray:
    """S at the end of each interval: the product of (1 - hazard) up to it.

    `alpha` is (intervals,), `log_risk` (patients,); the answer is (patients, intervals).
    Taken as the exponential of a sum, so the far tail keeps its digits.
    """
    curve: FloatArray = np.exp(-cumulative_hazard(alpha, log_risk, link=link))
    return curve


def places_of_ends(ends: FloatArray, times: ArrayLike, *, link: str) -> IntArray:
    """Which of the interval `ends` these times are; grouped time knows survival at no other."""
    at = np.asarray(times, dtype=np.float64)
    place = np.minimum(np.searchsorted(ends, at * (1.0 - 1e-9)), ends.size - 1)
    others = ~np.isclose(ends[place], at, rtol=1e-9, atol=0.0)
    if others.any():
        raise StudyError(
            f'The link "{link}" groups time: survival is known at the ends of intervals alone.',
            [
                f"{int(others.sum())} of the times asked for are none of the {ends.size} ends "
                f'from {ends[0]:g} to {ends[-1]:g}. A model with link = "log" knows survival '
                "at any time."
            ],
        )
    return place


def quantile_time(
    curves: FloatArray, interval_ends: FloatArray, share: float = 0.5
) -> FloatArray:
    """The first interval end with S of `share` or less; NaN where the curve stays above.

    `curves` is (patients, intervals); the answer is (patients,) in the ends' unit.
    """
    patients, intervals = curves.shape
    if intervals == 0:
        return np.full(patients, np.nan)
    reached = curves <= share
    first = reached.argmax(axis=1)
    return np.where(reached.any(axis=1), interval_ends[first], np.nan)
