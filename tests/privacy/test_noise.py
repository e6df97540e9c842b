"""Is the noise the discrete Gaussian, and is a release refused that cannot be protected?"""

from __future__ import annotations

import math
from collections import Counter
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import fedcox.privacy.noise as noise_module
from fedcox.errors import InputError
from fedcox.privacy.noise import (
    GaussianRelease,
    Randomness,
    SeededRandomnessForSimulations,
    SystemRandomness,
    chosen_by_chance,
    discrete_gaussian,
    excess_of_parts,
    noise_variance,
    noised,
)
from fedcox.survival.cohort import IntArray


def seeded(seed: int = 0) -> Randomness:
    return SeededRandomnessForSimulations(seed)


def chi_square(drawn: IntArray, variance: int) -> float:
    """P-value of the draws against exp(−y²/2σ²), tails together."""
    reach = math.ceil(3.2 * math.sqrt(variance))
    values = np.arange(-40 * reach, 40 * reach + 1)
    chances = np.exp(-(values**2) / (2.0 * variance))
    chances /= chances.sum()
    inside = np.abs(values) <= reach
    expected = [*chances[inside], chances[values < -reach].sum(), chances[values > reach].sum()]
    counted = Counter(drawn.tolist())
    observed = [counted[value] for value in values[inside].tolist()]
    observed += [int((drawn < -reach).sum()), int((drawn > reach).sum())]
    return float(stats.chisquare(observed, np.array(expected) * drawn.size).pvalue)


@pytest.mark.parametrize("variance", [1, 2, 5, 30])
def test_small_noise_has_the_discrete_gaussians_chances(variance: int) -> None:
    assert chi_square(discrete_gaussian(variance, 200_000, seeded(variance)), variance) > 1e-3


def test_the_chi_square_test_sees_a_wrong_variance() -> None:
    assert chi_square(discrete_gaussian(5, 200_000, seeded(1)), 6) < 1e-9


@pytest.mark.parametrize("variance", [2**40 + 12345, 2**46 - 1])
def test_large_noise_is_normal(variance: int) -> None:
    drawn = discrete_gaussian(variance, 200_000, seeded(7)) / math.sqrt(variance)
    assert stats.kstest(drawn, "norm").pvalue > 1e-3
    count = drawn.size
    assert abs(drawn.mean()) < 4 / math.sqrt(count)
    assert abs(drawn.var() - 1.0) < 4 * math.sqrt(2 / count)
    assert abs((drawn**4).mean() - 3.0) < 4 * math.sqrt(96 / count)


def test_coins_too_close_for_doubles_are_decided_in_digits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With nothing left to doubles, every coin goes the long way, and chances stay right."""
    monkeypatch.setattr(noise_module, "_DOUBT", 1e30)
    assert chi_square(discrete_gaussian(2, 3_000, seeded(3)), 2) > 1e-3


class Scripted:
    """Gives the numbers it was made with, in order."""

    def __init__(self, *numbers: int) -> None:
        self._numbers = list(numbers)

    def bits(self, count: int) -> IntArray:
        given, self._numbers = self._numbers[:count], self._numbers[count:]
        return np.array(given, dtype=np.int64)


def test_further_bits_decide_where_the_first_ones_are_those_of_the_chance() -> None:
    chance = Decimal(-1).exp()  # 28 digits: more than 63 bits
    first = int(chance * Decimal(2) ** 63)
    rest = (chance * Decimal(2) ** 63 - first) * Decimal(2) ** 63
    below, above = int(rest * Decimal("0.99")), int(rest * Decimal("1.01"))
    decide = noise_module._coin_by_digits
    assert decide(first, 1, 1, Scripted(below))
    assert not decide(first, 1, 1, Scripted(above))
    assert decide(first - 1, 1, 1, Scripted())
    assert not decide(first + 1, 1, 1, Scripted())


def test_even_a_chance_that_is_zero_in_doubles_is_one() -> None:
    """exp(−800) is no double, but 1200 zero bits are below it."""
    found = noise_module._coins(np.array([800.0]), lambda place: (800, 1), Scripted(*[0] * 20))
    assert found.tolist() == [True]


def test_the_systems_randomness_is_not_repeated_and_uses_all_bits() -> None:
    source = SystemRandomness()
    drawn = source.bits(50_000)
    assert np.unique(drawn).size == drawn.size
    ones = [int(((drawn >> bit) & 1).sum()) for bit in range(63)]
    assert drawn.min() >= 0
    assert max(abs(count - 25_000) for count in ones) < 6 * math.sqrt(12_500)
    assert discrete_gaussian(2**40, 1_000, source).std() == pytest.approx(2**20, rel=0.2)


def test_seeded_randomness_repeats_itself() -> None:
    one, two, other = (discrete_gaussian(9, 50, seeded(seed)).tolist() for seed in (1, 1, 2))
    assert one == two != other


@pytest.mark.parametrize("chance", [0.1, 0.73])
def test_everybody_is_drawn_by_the_same_chance(chance: float) -> None:
    drawn = chosen_by_chance(100_000, chance, seeded())
    assert stats.binomtest(int(drawn.sum()), drawn.size, chance).pvalue > 1e-3
    halves = drawn[: drawn.size // 2].sum(), drawn[drawn.size // 2 :].sum()
    assert abs(int(halves[0]) - int(halves[1])) < 5 * math.sqrt(drawn.size * chance)


def test_a_rate_of_one_is_everybody() -> None:
    assert chosen_by_chance(1000, 1.0, Scripted()).all()


def test_the_variance_counts_the_rounding_of_shares() -> None:
    release = GaussianRelease(2.0, 0.5)
    units = 0.5 / release.resolution
    expected = (2.0 * (units + math.sqrt(210) / 2)) ** 2
    assert noise_variance(release, 210, masked=False) == pytest.approx(expected, rel=1e-11)
    assert noise_variance(release, 210, masked=False) >= expected


@pytest.mark.parametrize("answering", [3, 4, 5])
def test_parts_of_the_noise_are_enough_whoever_answers(answering: int) -> None:
    release = GaussianRelease(10.0, 1.0, fewest_centers=3)
    whole = noise_variance(release, 50, masked=False)
    part = noise_variance(release, 50, masked=True)
    assert answering * part >= whole
    assert 3 * part < whole * (1 + 1e-9), "and no more than needed"


def test_without_masks_every_center_adds_all_of_the_noise() -> None:
    release = GaussianRelease(10.0, 1.0, fewest_centers=4)
    zeros = np.zeros(20_000)
    seen = noised(zeros, release, seeded(1), masked=False)
    hidden = noised(zeros, release, seeded(2), masked=True)
    rounding = math.sqrt(zeros.size) / 2 * release.resolution
    assert seen.std() == pytest.approx(10.0 * (1 + rounding), rel=0.03)
    assert hidden.std() == pytest.approx(5.0 * (1 + rounding), rel=0.03)


def test_noised_sums_stay_on_the_grid_and_around_the_sum() -> None:
    release = GaussianRelease(4.0, 0.5)
    vector = np.round(np.linspace(-30, 30, 5000) / release.resolution) * release.resolution
    found = noised(vector, release, seeded(5), masked=False)
    assert np.equal(found / release.resolution, np.rint(found / release.resolution)).all()
    assert abs((found - vector).mean()) < 4 * 2.0 / math.sqrt(vector.size)


@pytest.mark.parametrize("entry", [math.nan, math.inf, 1e18, 1 / 3])
def test_a_sum_that_is_not_on_the_grid_is_refused(entry: float) -> None:
    release = GaussianRelease(4.0, 0.5)
    with pytest.raises(InputError, match="grid"):
        noised(np.array([0.0, entry]), release, seeded(), masked=False)


def test_parts_of_noise_protect_like_noise_at_once() -> None:
    release = GaussianRelease(3.0, 1.0, fewest_centers=3)
    assert excess_of_parts(release, 210, centers=50) == 0.0


def test_the_bound_on_parts_is_the_published_one_where_it_is_not_zero(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Kairouz, Liu and Steinke (2021): two centers, σ² = 1, ε² = 1/9, d = 4."""
    monkeypatch.setattr(noise_module, "noise_variance", lambda *args, **kwargs: 1)
    tau = 10 * math.exp(-(math.pi**2))
    expected = min(math.sqrt(1 / 9 + 2 * tau), 1 / 3 + 2 * tau) - 1 / 3
    assert excess_of_parts(GaussianRelease(3.0, 1.0), 4, centers=2) == pytest.approx(expected)


def test_a_variance_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="variance"):
        discrete_gaussian(0, 3, seeded())


@given(
    multiplier=st.floats(1e-2, 1e5),
    sensitivity=st.floats(1e-6, 1e6),
    fewest=st.none() | st.integers(1, 200),
)
def test_one_centers_noise_is_a_million_units_of_the_grid(
    multiplier: float, sensitivity: float, fewest: int | None
) -> None:
    release = GaussianRelease(multiplier, sensitivity, fewest_centers=fewest)
    own = release.own_multiplier * sensitivity / release.resolution
    assert 2**20 * (1 - 1e-12) <= own < 2**21
    assert math.frexp(release.resolution)[0] == 0.5, "a power of two"


def test_every_fault_is_told_at_once() -> None:
    with pytest.raises(InputError) as refused:
        GaussianRelease(0.0, math.inf, 1.5, 0, 0)
    assert len(refused.value.faults) == 5


@given(
    shares=st.lists(st.floats(1e-3, 1.0), min_size=1, max_size=6),
    whole=st.floats(1e-2, 1e3),
    releases=st.integers(1, 5),
)
def test_kinds_of_one_study_have_the_shares_that_they_spend(
    shares: list[float], whole: float, releases: int
) -> None:
    total = math.fsum(shares)
    kinds = [
        GaussianRelease(
            whole * math.sqrt(releases * total / share), 1.0, releases=releases, whole=whole
        )
        for share in shares
    ]
    assert math.fsum(kind.share for kind in kinds) == pytest.approx(1.0, rel=1e-9)
    spent = math.fsum(kind.releases / kind.noise_multiplier**2 for kind in kinds)
    assert spent == pytest.approx(whole**-2, rel=1e-9)


def test_a_study_of_one_kind_spends_all_of_it() -> None:
    assert GaussianRelease(3.0, 1.0, releases=7).share == 1.0


@pytest.mark.parametrize("whole", [0.0, -1.0, math.inf, math.nan])
def test_the_noise_of_a_study_is_a_positive_number(whole: float) -> None:
    with pytest.raises(InputError) as refused:
        GaussianRelease(1.0, 1.0, whole=whole)
    assert "must be positive" in refused.value.faults[0]


@pytest.mark.parametrize(("multiplier", "releases"), [(0.99, 1), (2.0, 5)])
def test_sums_with_less_noise_than_their_study_are_no_part_of_it(
    multiplier: float, releases: int
) -> None:
    with pytest.raises(InputError) as refused:
        GaussianRelease(multiplier, 1.0, releases=releases, whole=1.0)
    assert "less noise than all of the study" in refused.value.faults[0]
    GaussianRelease(2.0, 1.0, releases=4, whole=1.0)


def test_sums_over_a_sample_are_no_kind_of_several() -> None:
    with pytest.raises(InputError) as refused:
        GaussianRelease(4.0, 1.0, sampling_rate=0.5, whole=1.0)
    assert "not over a sample" in refused.value.faults[0]
