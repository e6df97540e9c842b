"""Numbers as a reader expects them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcox.reports.number_text import (
    bound_text,
    bytes_text,
    count_text,
    one_in_text,
    p_text,
    percent_text,
    power_text,
    ratio_decimals,
    ratio_text,
    short_text,
    signed_text,
)


@pytest.mark.parametrize(
    ("p", "text"),
    [
        (0.0, "<0.001"),
        (0.00099, "<0.001"),
        (0.0012, "0.001"),
        (0.0496, "0.050"),
        (0.432, "0.43"),
        (0.997, ">0.99"),
        (None, "–"),
        (math.nan, "–"),
    ],
)
def test_p_values_read_as_in_a_journal(p: float | None, text: str) -> None:
    assert p_text(p) == text


@pytest.mark.parametrize(
    ("ratio", "text"),
    [
        (1.0, "1.00"),
        (0.5834, "0.58"),
        (0.012, "0.012"),
        (12.34, "12.3"),
        (1234.0, "1,234"),
        (1e9, ">10,000"),
        (math.inf, ">10,000"),
        (1e-9, "<0.0001"),
        (0.0, "<0.0001"),
        (None, "–"),
    ],
)
def test_ratios_have_two_decimals_and_no_absurd_digits(ratio: float | None, text: str) -> None:
    assert ratio_text(ratio) == text


def test_a_narrow_interval_gets_the_decimals_it_needs() -> None:
    assert ratio_decimals(0.41, 0.80) == 2
    assert ratio_decimals(1.0172, 1.0252) == 4
    assert ratio_text(1.0212, 4) == "1.0212"


def test_counts_keep_halves() -> None:
    assert [count_text(value) for value in (0, 1234, 12.5)] == ["0", "1,234", "12.5"]


def test_bytes_change_unit_in_steps_of_a_thousand() -> None:
    sizes = (0, 999, 1000, 99_960, 123_456, 999_900, 2_500_000, 7e9)
    assert [bytes_text(size) for size in sizes] == [
        "0 bytes",
        "999 bytes",
        "1.0 kB",
        "100 kB",
        "123 kB",
        "1.0 MB",
        "2.5 MB",
        "7.0 GB",
    ]


def test_measured_values_have_four_digits() -> None:
    values = (0.0, 62.44, 1080.0, 0.1234567, -3.27, 1e-9, 12345.6, math.nan)
    assert [short_text(value) for value in values] == [
        "0",
        "62.44",
        "1,080",
        "0.1235",
        "-3.27",
        "1e-09",
        "12,346",
        "–",
    ]


def test_shares_read_as_per_cent() -> None:
    assert [percent_text(share) for share in (0.0, 0.004, 0.394, 1.0)] == [
        "0 %",
        "0.4 %",
        "39 %",
        "100 %",
    ]


def test_powers_of_ten_have_raised_exponents() -> None:
    assert [power_text(power) for power in (3, 0, -12)] == ["10³", "10⁰", "10⁻¹²"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0123, "+0.012"),
        (-0.0123, "−0.012"),
        (0.0004, "0.000"),
        (-0.0004, "0.000"),
        (0.0, "0.000"),
        (None, "–"),
        (math.nan, "–"),
    ],
)
def test_differences_have_a_sign_unless_they_round_to_zero(
    value: float | None, text: str
) -> None:
    assert signed_text(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0, "1"),
        (0.99987, "1"),
        (1.001, "1.01"),
        (2.71828, "2.72"),
        (0, "0"),
        (22026.5, "22,100"),
    ],
)
def test_a_bound_is_rounded_up(value: float, text: str) -> None:
    assert bound_text(value) == text


@given(st.floats(1e-6, 1e6))
def test_a_printed_bound_still_holds(value: float) -> None:
    assert float(bound_text(value).replace(",", "")) >= value * (1 - 1e-11)


@pytest.mark.parametrize(
    ("chance", "text"),
    [(1e-5, "1 in 100,000"), (3e-6, "1 in 333,000"), (0.01, "1 in 100"), (0, "nothing")],
)
def test_a_small_chance_is_one_in_so_many(chance: float, text: str) -> None:
    assert one_in_text(chance) == text


@given(st.floats(1e-12, 0.1))
def test_a_small_chance_is_never_made_smaller(chance: float) -> None:
    many = float(one_in_text(chance).removeprefix("1 in ").replace(",", ""))
    assert 1 / many >= chance * (1 - 1e-11)
