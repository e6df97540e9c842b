"""How much privacy do noised sums spend? Epsilon for their noise, and noise for an epsilon.

The claim is about one patient more or less. Sums over samples are accounted for by their
privacy loss distribution, computed by `dp-accounting`, so that others can check it; sums over
everybody by the formula for one Gaussian, which has the same digits (the tests compare them),
and for which no center waits in mid-study.
The noise there is the continuous Gaussian; the discrete one on so fine a grid is no different
in any digit (`noise.py`).
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_ndtr

from fedcox.errors import InputError
from fedcox.privacy.noise import GaussianRelease

#: The noise multiplier for an epsilon is found to this part of itself, from above.
_PRECISION = 1e-4
#: Steps of the search, and where it gives up, as logarithms of the multiplier.
_STRIDE, _MOST = math.log(2.0), math.log(1e7)
#: Epsilons below and above any that is asked for.
_NOTHING, _EVERYTHING = 1e-12, 1e12
#: Noise below this multiple gives epsilons beyond fifty, which promise little, and would take
#: the accountant more memory the less there is.
_LEAST = 0.15
#: How near the epsilon of a Gaussian is found.
_ROOT = 1e-11
#: Differences that rounding takes for none count as this.
_NOT_ZERO = 1e-300


def epsilon_of(release: GaussianRelease, delta: float) -> float:
    """The epsilon that all sums of this release spend together, at this delta.

    Where it is one kind of several, all kinds of the study together. Infinite for sums over a
    sample where it would be beyond fifty.
    """
    if release.whole is not None:
        return _epsilon(release.whole, 1.0, 1, delta)
    return _epsilon(release.noise_multiplier, release.sampling_rate, release.releases, delta)


def epsilon_against_other_centers(release: GaussianRelease, delta: float) -> float:
    """The same against all other centers together, who can subtract their parts of the noise.

    It is larger than `epsilon_of` where the noise is added in parts.
    """
    if release.whole is not None:
        return _epsilon(release.whole / math.sqrt(release.parts), 1.0, 1, delta)
    return _epsilon(release.own_multiplier, release.sampling_rate, release.releases, delta)


@lru_cache(maxsize=256)
def noise_multiplier_for(
    epsilon: float, delta: float, *, sampling_rate: float = 1.0, releases: int = 1
) -> float:
    """The least noise, as a multiple of the sensitivity, that spends at most `epsilon`."""
    if not (math.isfinite(epsilon) and epsilon > 0):
        raise InputError(f"An epsilon of {epsilon:g} cannot be spent; it must be positive.")

    def too_much(log_multiplier: float) -> float:
        """Logarithm of the epsilon spent over that allowed: decreasing, nearly straight."""
        spent = _epsilon(math.exp(log_multiplier), sampling_rate, releases, delta)
        return math.log(min(max(spent, _NOTHING), _EVERYTHING) / epsilon)

    # Little noise takes the accountant long, so the search comes from the side of much.
    high = math.log(max(1.0, math.sqrt(releases) * sampling_rate))
    while too_much(high) > 0:
        high += _STRIDE
        if high > _MOST:
            raise InputError(
                f"No noise gives epsilon {epsilon:g} at delta {delta:g}.",
                ["Allow a larger epsilon or fewer releases."],
            )
    low = high - _STRIDE
    while too_much(low) < 0:
        low, high = low - _STRIDE, low
    logarithm = float(brentq(too_much, low, high, xtol=_PRECISION))
    while too_much(logarithm) > 0:
        logarithm += _PRECISION
    return math.exp(logarithm)


@lru_cache(maxsize=1024)
def _epsilon(multiplier: float, sampling_rate: float, releases: int, delta: float) -> float:
    if not 0 < delta < 1:
        raise InputError(f"A delta of {delta:g} is no chance; it must be between 0 and 1.")
    if sampling_rate == 1.0:  # noise of one release is that of all, by √releases smaller
        return gaussian_epsilon(multiplier / math.sqrt(releases), delta)
    if multiplier < _LEAST:
        return math.inf
    events = _events()
    one = events.PoissonSampledDpEvent(sampling_rate, events.GaussianDpEvent(multiplier))
    event = events.SelfComposedDpEvent(one, releases)
    from dp_accounting.pld import PLDAccountant

    accountant = PLDAccountant(events.NeighboringRelation.ADD_OR_REMOVE_ONE)
    return float(accountant.compose(event).get_epsilon(delta))


def gaussian_epsilon(multiplier: float, delta: float) -> float:
    """Of one sum over everybody (Balle and Wang 2018, theorem 8)."""
    mu = 1.0 / multiplier

    def too_much(epsilon: float) -> float:
        first = log_ndtr(mu / 2.0 - epsilon / mu)
        second = min(-_NOT_ZERO, epsilon + log_ndtr(-mu / 2.0 - epsilon / mu) - first)
        return float(first + np.log(-np.expm1(second)) - math.log(delta))

    if too_much(0.0) <= 0.0:
        return 0.0  # delta alone covers it
    most = mu**2 / 2.0 + mu * math.sqrt(-2.0 * math.log(delta))
    # The root is found to this; a claim is never below the truth.
    return float(brentq(too_much, 0.0, most, xtol=_ROOT)) * (1.0 + _ROOT) + _ROOT


def _events() -> Any:
    try:
        import dp_accounting
    except ImportError as error:
        raise InputError(
            "Differential privacy needs the package dp-accounting, which is not installed.",
            ['Install it with: pip install "fedcox[private]"'],
        ) from error
    return dp_accounting
