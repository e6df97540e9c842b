from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcox.errors import InputError
from fedcox.privacy.release import GaussianRelease


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
