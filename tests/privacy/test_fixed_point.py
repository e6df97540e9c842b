"""Sums in fixed point are exact in the integers, and what does not fit is refused."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcox.errors import SecureSumError
from fedcox.privacy.fixed_point import decode, encode


def nearest_units(value: float, bits: int) -> int:
    """By rational numbers: the whole number nearest to value · 2^bits, ties to even."""
    return round(Fraction(value) * Fraction(2) ** bits)


def largest(centers: int, bits: int) -> float:
    """Of a center's numbers, so that the sum of all centers does not wrap."""
    return float(np.ldexp(float((2**63 - 1) // centers), -bits))


@given(data=st.data(), centers=st.integers(1, 60), bits=st.integers(-20, 60))
def test_sums_are_exact_mod_2_64_and_within_half_a_unit_for_each_center(
    data: Any, centers: int, bits: int
) -> None:
    bound = largest(centers, bits) * 0.999
    number = st.floats(-bound, bound, allow_nan=False)
    values = [data.draw(number) for _ in range(data.draw(st.integers(1, centers)))]
    encoded = [encode(np.array([value]), bits, centers) for value in values]
    total = np.add.reduce(encoded)
    units = sum(nearest_units(value, bits) for value in values)
    assert int(total[0]) == units % 2**64
    exact = sum(map(Fraction, values))
    half_a_unit = Fraction(2) ** -bits / 2
    assert abs(units * Fraction(2) ** -bits - exact) <= len(values) * half_a_unit
    decoded = float(decode(total, bits)[0])
    assert decoded == float(units * Fraction(2) ** -bits)


@pytest.mark.parametrize("centers", [1, 3, 7, 50])
@pytest.mark.parametrize("bits", [0, 24, 32, 52])
def test_the_largest_numbers_of_all_centers_do_not_wrap(centers: int, bits: int) -> None:
    bound = largest(centers, bits)
    for sign in (-1.0, 1.0):
        number = sign * np.nextafter(bound, 0.0)
        total = np.add.reduce([encode(np.array([number]), bits, centers)] * centers)
        assert decode(total, bits)[0] == pytest.approx(centers * number, rel=1e-15)
        with pytest.raises(SecureSumError, match="1 of 2 are out of range"):
            encode(np.array([0.0, sign * bound * 1.001]), bits, centers)


def test_what_is_not_finite_or_too_large_is_counted_and_never_shown() -> None:
    values = np.array([np.nan, np.inf, -np.inf, 7.34519e300, -7.34519e13, 1.0])
    with pytest.raises(SecureSumError) as raised:
        encode(values, 32, 5)
    assert "3 of 6 are not finite" in str(raised.value)
    assert "2 of 6 are out of range" in str(raised.value)
    assert "7.345" not in str(raised.value)


def test_a_number_that_overflows_while_it_is_scaled_is_out_of_range() -> None:
    with pytest.raises(SecureSumError, match="1 of 1 are out of range"):
        encode(np.array([1e300]), 900, 3)


def test_negative_numbers_and_minus_zero_come_back() -> None:
    values = np.array([-1.5, -0.0, 0.0, -(2.0**-8), 2.0**-9, 3 * 2.0**-9])
    expected = [-1.5, 0.0, 0.0, -(2.0**-8), 0.0, 2 * 2.0**-8]  # ties go to the even unit
    np.testing.assert_array_equal(decode(encode(values, 8, 4), 8), expected)


@pytest.mark.parametrize("bits", [1001, -1001])
def test_bits_beyond_a_floats_exponents_are_refused(bits: int) -> None:
    with pytest.raises(SecureSumError, match="between"):
        encode(np.zeros(1), bits, 3)
