from __future__ import annotations

import builtins
import math
from typing import Any

import pytest
from scipy.optimize import brentq
from scipy.special import ndtr

import fedcox.privacy.accountant as accountant_module
from fedcox.errors import InputError
from fedcox.privacy.accountant import (
    epsilon_against_other_centers,
    epsilon_of,
    noise_multiplier_for,
)
from fedcox.privacy.release import GaussianRelease

DELTA = 1e-5


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
    assert expected <= found <= expected * 1.002, "never below the truth"


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


@pytest.mark.parametrize(("rate", "releases"), [(1.0, 1), (1.0, 10_000), (0.1, 1)])
def test_next_to_no_noise_spends_everything_at_once(rate: float, releases: int) -> None:
    """And is told so, where the accountant would need more memory than there is."""
    assert epsilon_of(GaussianRelease(1e-3, 1.0, rate, releases), DELTA) == math.inf


def test_the_other_centers_together_know_more() -> None:
    release = GaussianRelease(4.0, 1.0, fewest_centers=4)
    known = epsilon_against_other_centers(release, DELTA)
    assert known == epsilon_of(GaussianRelease(2.0, 1.0), DELTA) > epsilon_of(release, DELTA)


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
