"""Numbers of any size keep a double's digits through a sum of integers."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcox.errors import SecureSumError
from fedcox.privacy.fixed_point import decode_limbs, encode_limbs

numbers = st.one_of(
    st.floats(-1e30, 1e30),
    st.floats(-1e15, 1e15),
    st.floats(-1e-6, 1e-6),
    st.floats(1e-12, 1e-9),
    st.just(0.0),
)


@given(st.lists(st.lists(numbers, min_size=4, max_size=4), min_size=1, max_size=8))
def test_the_sum_is_that_of_the_numbers(rows: list[list[float]]) -> None:
    total = sum((encode_limbs(np.array(row), len(rows)) for row in rows), np.zeros(16, "u8"))
    for found, *column in zip(decode_limbs(total), *rows, strict=True):
        exact = sum(map(Fraction, column))
        assert (
            float(abs(Fraction(float(found)) - exact)) <= 2.3e-16 * float(abs(exact)) + 2.0**-99
        )


def test_parts_that_cancel_take_no_digits_with_them() -> None:
    numbers = [562949953421313.0, -291210822986531.2]
    total = sum((encode_limbs(np.array([each]), 2) for each in numbers), np.zeros(4, "u8"))
    assert decode_limbs(total)[0] == sum(map(Fraction, numbers))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 5e33])
def test_what_cannot_be_written_is_refused(value: float) -> None:
    with pytest.raises(SecureSumError, match=r"fixed point"):
        encode_limbs(np.array([1.0, value]), 3)
