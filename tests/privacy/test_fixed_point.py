"""Do numbers come back from the integers that are masked, and add like them?"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcox.errors import SecureSumError
from fedcox.privacy.fixed_point import (
    UIntArray,
    decode,
    decode_limbs,
    encode,
    encode_limbs,
    highest,
    markers,
)
from tests.privacy.secure_sum_examples import Hospitals


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


RUNS = 4000


@given(data=st.data(), cells=st.integers(0, 60))
def test_the_highest_cell_of_the_sum_is_the_farthest_any_center_reaches(
    data: Any, cells: int
) -> None:
    reached = data.draw(st.lists(st.integers(0, cells), min_size=1, max_size=8))
    total = np.add.reduce([markers(own, cells) for own in reached])
    assert highest(total) == (max(reached) - 1 if max(reached) else None)


def test_every_marker_below_the_maximum_differs_from_zero_and_none_above() -> None:
    marked = markers(5000, 6000)
    assert np.all(marked[:5000] != 0)
    assert np.all(marked[5000:] == 0)


@pytest.mark.parametrize("reached", [-1, 61])
def test_a_maximum_beyond_the_grid_is_not_marked(reached: int) -> None:
    with pytest.raises(ValueError, match="cannot be reached"):
        markers(reached, 60)


def parity_is_hidden(drawn: UIntArray, other: UIntArray) -> bool:
    """Whether the lowest bit is a fair coin for both numbers of centers."""
    ones = np.array([np.sum(values & np.uint64(1)) for values in (drawn, other)], dtype=float)
    # Five standard deviations of a fair coin.
    return bool(np.all(np.abs(ones / RUNS - 0.5) < 5 * 0.5 / np.sqrt(RUNS)))


def test_the_sum_does_not_show_how_many_centers_reach_a_cell() -> None:
    three, four = (
        np.add.reduce([markers(RUNS, RUNS) for _ in range(centers)]) for centers in (3, 4)
    )
    assert parity_is_hidden(three, four)
    # The first idea, markers that are odd, fails: their sum's parity is that of the count.
    odd_three, odd_four = (
        np.add.reduce([markers(RUNS, RUNS) | np.uint64(1) for _ in range(centers)])
        for centers in (3, 4)
    )
    assert not parity_is_hidden(odd_three, odd_four)


@pytest.mark.parametrize("dropped", [(), (0,), (1, 2)])
def test_under_masks_the_maximum_is_that_of_the_centers_that_answered(
    dropped: tuple[int, ...],
) -> None:
    hospitals = Hospitals(5).ready()
    reached = dict(zip(hospitals.names, (17, 44, 3, 29, 0), strict=True))
    without = {hospitals.names[index] for index in dropped}
    vectors = {name: markers(own, 60) for name, own in reached.items()}
    result = hospitals.sum(vectors, without=without)
    assert highest(result.total) == max(reached[name] for name in result.survivors) - 1
