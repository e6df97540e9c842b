"""From baseline and log risk to survival: S(t | x) at the interval ends, and the median.

A baseline is one `alpha` per interval, the link's value at covariates zero. An interval
whose hazard is zero for everyone has alpha = -inf, one whose hazard is one has +inf; both
are exact here, so nobody needs a stand-in such as -28.
"""

from __future__ import annotations

import numpy as np

from fedcox.survival.cohort import FloatArray
from fedcox.survival.link import AbstractLink


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


def median_time(curves: FloatArray, interval_ends: FloatArray) -> FloatArray:
    """The first interval end with S of one half or less; NaN where the curve stays above.

    `curves` is (patients, intervals); the answer is (patients,) in the ends' unit.
    """
    patients, intervals = curves.shape
    if intervals == 0:
        return np.full(patients, np.nan)
    reached = curves <= 0.5
    first = reached.argmax(axis=1)
    return np.where(reached.any(axis=1), interval_ends[first], np.nan)
