from __future__ import annotations

import builtins
import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from dp_accounting.pld import PLDAccountant
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.special import ndtr

import fedcox.privacy.accountant as accountant_module
from fedcox.errors import InputError
from fedcox.privacy.accountant import (
    epsilon_against_other_centers,
    epsilon_of,
    noise_multiplier_for,
)
from fedcox.privacy.noise import GaussianRelease

DELTA = 1e-5
#: The accountant rounds losses up, to so small a part of an epsilon.
CLOSE = 1e-6


def closed_form(multiplier: float, delta: float) -> float:
    """Epsilon of one Gaussian release (Balle and Wang 2018, theorem 8)."""

    def excess(epsilon: float) -> float:
        shift, width = 0.5 / multiplier, epsilon * multiplier
        return float(ndtr(shift - width) - math.exp(epsilon) * ndtr(-shift - width)) - delta

    return float(brentq(excess, 0.0, 50.0, xtol=1e-12))


@pytest.mark.parametrize(("multiplier", "releases"), [(1.0, 1), (3.73, 1), (20.0, 100)])
def test_sums_over_everybody_are_one_gaussian_release(multiplier: float, releases: int) -> None:
    found = epsilon_of(GaussianRelease(multiplier, 1.0, releases=releases), DELTA)
    expected = closed_form(multiplier / math.sqrt(releases), DELTA)
    assert expected <= found <= expected + 1e-9, "never below the truth"


def test_sampled_sums_are_accounted_for_by_their_loss_distribution() -> None:
    """Measured beforehand: 2.50 where Rényi divergences say 2.72."""
    release = GaussianRelease(3.0, 1.0, sampling_rate=0.1, releases=300)
    assert epsilon_of(release, DELTA) == pytest.approx(2.50, abs=0.01)


def test_the_length_of_a_share_does_not_matter() -> None:
    one, other = (epsilon_of(GaussianRelease(2.0, bound), DELTA) for bound in (0.1, 50.0))
    assert one == other


@pytest.mark.parametrize(("rate", "releases"), [(1.0, 80), (0.1, 40)])
def test_the_noise_for_an_epsilon_spends_it_and_no_more(rate: float, releases: int) -> None:
    multiplier = noise_multiplier_for(1.0, DELTA, sampling_rate=rate, releases=releases)
    spent = epsilon_of(GaussianRelease(multiplier, 1.0, rate, releases), DELTA)
    assert 0.998 < spent <= 1.0


def test_a_large_epsilon_needs_little_noise() -> None:
    multiplier = noise_multiplier_for(5.0, DELTA)
    assert closed_form(multiplier, DELTA) == pytest.approx(5.0, rel=2e-3)


@pytest.mark.parametrize("releases", [1, 10_000])
def test_next_to_no_noise_over_a_sample_spends_everything_at_once(releases: int) -> None:
    """And is told so, where the accountant would need more memory than there is."""
    assert epsilon_of(GaussianRelease(1e-3, 1.0, 0.1, releases), DELTA) == math.inf


def test_the_other_centers_together_know_more() -> None:
    release = GaussianRelease(4.0, 1.0, fewest_centers=4)
    known = epsilon_against_other_centers(release, DELTA)
    assert known == epsilon_of(GaussianRelease(2.0, 1.0), DELTA) > epsilon_of(release, DELTA)


@pytest.mark.parametrize("fewest", [None, 4])
def test_several_kinds_of_sums_cost_what_one_gaussian_of_all_their_noise_does(
    fewest: int | None,
) -> None:
    """Of noise z each: 1 / whole² is the sum of all 1 / z²."""
    multipliers = np.array([3.0, 4.0, 4.0, 9.0])
    whole = float(np.sum(multipliers**-2.0) ** -0.5)
    kinds = [
        GaussianRelease(3.0, 1.0, fewest_centers=fewest, whole=whole),
        GaussianRelease(4.0, 0.2, releases=2, fewest_centers=fewest, whole=whole),
        GaussianRelease(9.0, 5.0, fewest_centers=fewest, whole=whole),
    ]
    assert math.fsum(kind.share for kind in kinds) == pytest.approx(1.0, rel=1e-12)
    one = GaussianRelease(whole, 1.0, fewest_centers=fewest)
    assert {epsilon_of(kind, DELTA) for kind in kinds} == {epsilon_of(one, DELTA)}
    known = {epsilon_against_other_centers(kind, DELTA) for kind in kinds}
    assert known == {epsilon_against_other_centers(one, DELTA)}
    alone = epsilon_of(GaussianRelease(3.0, 1.0), DELTA)
    assert alone < epsilon_of(one, DELTA) <= closed_form(whole, DELTA) + 1e-9


@pytest.mark.parametrize(
    ("multiplier", "releases", "delta"),
    [(0.2, 1, DELTA), (0.5, 1, 1e-2), (1.0, 1, 1e-9), (3.0, 1, DELTA), (6.0, 17, DELTA)],
)
def test_the_formula_for_sums_over_everybody_agrees_with_dp_accounting(
    multiplier: float, releases: int, delta: float
) -> None:
    events = accountant_module._events()
    accountant = PLDAccountant(events.NeighboringRelation.ADD_OR_REMOVE_ONE)
    accountant.compose(events.GaussianDpEvent(multiplier), releases)
    found = epsilon_of(GaussianRelease(multiplier, 1.0, releases=releases), delta)
    assert found == pytest.approx(accountant.get_epsilon(delta), rel=CLOSE)


def test_more_noise_never_costs_more() -> None:
    multipliers = [1e-3, 0.01, 0.1, 0.15, 0.2, 0.5, 1.0, 5.0]
    spent = [epsilon_of(GaussianRelease(each, 1.0), DELTA) for each in multipliers]
    assert spent == sorted(spent, reverse=True)
    assert len(set(spent)) == len(spent)


@pytest.mark.parametrize("multiplier", [1e-4, 1e-3, 0.05, 1.0])
def test_delta_is_what_of_the_privacy_loss_lies_beyond_epsilon(multiplier: float) -> None:
    """By its definition: the loss is Gaussian, of mean 1 / 2σ² and spread 1 / σ."""
    spent = epsilon_of(GaussianRelease(multiplier, 1.0), DELTA)
    mu = 1.0 / multiplier
    begin = (spent - mu**2 / 2.0) / mu

    def beyond(u: float) -> float:
        z = begin + u
        return -math.expm1(-mu * u) * math.exp(-(z**2) / 2.0) / math.sqrt(2.0 * math.pi)

    parts = [0.0, min(1.0, 10.0 / mu), 1.0, 20.0]
    delta = math.fsum(quad(beyond, *ends, epsabs=1e-16)[0] for ends in pairwise(parts))
    assert delta == pytest.approx(DELTA, rel=1e-4)


@pytest.mark.parametrize("epsilon", [60.0, 500.0, 1e4])
def test_noise_for_a_large_epsilon_spends_it_and_no_more(epsilon: float) -> None:
    multiplier = noise_multiplier_for(epsilon, DELTA)
    spent = epsilon_of(GaussianRelease(multiplier, 1.0), DELTA)
    assert 0.999 * epsilon < spent <= epsilon


@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, DELTA), (math.nan, DELTA), (1.0, 0.0)])
def test_what_is_no_budget_is_refused(epsilon: float, delta: float) -> None:
    with pytest.raises(InputError):
        noise_multiplier_for(epsilon, delta)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    ordinary = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "dp_accounting":
            raise ImportError
        return ordinary(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(InputError, match=r"fedcox\[private\]"):
        accountant_module._events()


def test_where_delta_alone_covers_it_epsilon_is_zero() -> None:
    assert accountant_module.gaussian_epsilon(100.0, 0.01) == 0.0
    assert accountant_module.gaussian_epsilon(0.6, 0.9) == 0.0
    assert accountant_module.gaussian_epsilon(0.6, 0.5) > 0.0
