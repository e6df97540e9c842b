from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcox.errors import InputError
from fedcox.privacy.noise import GaussianRelease


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
