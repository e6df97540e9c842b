"""What differential privacy promises, in words whose numbers hold."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from fedcox.reports.guarantee_words import (
    TitledText,
    against_centers,
    chance_of_right_guess,
    one_patient,
    promise_in_a_word,
    promises,
    promises_in_short,
    right_guesses_text,
)
from fedcox.study.fit_rows import Guarantee


def guarantee(epsilon: float, delta: float = 1e-5, *, masked: bool = True) -> Guarantee:
    return Guarantee(epsilon, delta, 100, 38.25, 1.0, masked)


@given(st.floats(0.0, 30.0), st.floats(0.0, 0.5))
def test_the_chance_of_a_right_guess_is_reached_by_the_worst_mechanism(
    epsilon: float, delta: float
) -> None:
    """One that tells the truth by chance delta, and else a coin of odds e^epsilon decides."""
    coin = math.exp(epsilon) / (1 + math.exp(epsilon))
    worst = delta + (1 - delta) * coin
    assert chance_of_right_guess(guarantee(epsilon, delta)) == pytest.approx(worst, abs=1e-12)


@given(st.floats(0.3, 20.0), st.floats(0.0, 8.0))
def test_the_chance_of_a_right_guess_holds_for_gaussian_noise(
    sigma: float, epsilon: float
) -> None:
    """Its delta at every epsilon and its best test are both known exactly."""
    half, shift = 1 / (2 * sigma), epsilon * sigma
    delta = norm.cdf(half - shift) - math.exp(epsilon) * norm.cdf(-half - shift)
    best_test = norm.cdf(half)
    assert best_test <= chance_of_right_guess(guarantee(epsilon, float(delta))) + 1e-9


@given(st.floats(1e-3, 800.0), st.floats(0.0, 0.1))
def test_the_printed_chance_is_never_too_small(epsilon: float, delta: float) -> None:
    promised = guarantee(epsilon, delta)
    printed = float(right_guesses_text(promised).removesuffix(" %"))
    assert printed <= 100
    assert printed >= min(100.0, 100 * chance_of_right_guess(promised)) - 1e-6


@pytest.mark.parametrize("epsilon", [1.0, 30.0, 100.0, 690.0])
def test_the_printed_factor_is_never_too_small(epsilon: float) -> None:
    factor = re.search(r"a factor of at most ([\d.,e+]+) ", one_patient(guarantee(epsilon)))
    assert factor is not None
    assert math.log(float(factor[1].replace(",", ""))) >= epsilon - 1e-9


def test_epsilon_one_reads_as_it_should() -> None:
    text = one_patient(guarantee(1.0))
    assert "a factor of at most 2.72 (e to the power of epsilon, 1)" in text
    assert "plus at most 1 in 100,000 (delta)" in text
    assert "right in at most 73.2 % of cases" in text


@pytest.mark.parametrize(
    ("epsilon", "word"),
    [
        (0.1, "strong"),
        (1.0, "strong"),
        (1.01, "fair"),
        (2.9, "fair"),  # of guesses 94.8 % are right
        (2.95, "little"),  # and here 95.03 %
        (10.0, "little"),
        (10.01, "none"),
    ],
)
def test_a_large_epsilon_is_not_sold_as_much(epsilon: float, word: str) -> None:
    assert promise_in_a_word(epsilon, 1e-5) == word
    told = one_patient(guarantee(epsilon))
    assert ("promises little" in told) == (word in {"little", "none"})
    assert ("promises little: " in told) == (word == "none")


def test_who_added_the_noise_and_whom_it_holds_against_depends_on_masks() -> None:
    masked = " ".join(part.text for part in promises(guarantee(1.0)))
    alone = " ".join(part.text for part in promises(guarantee(1.0, masked=False)))
    assert "once to the sum over all centers" in masked
    assert "Against all other centers together" in masked
    assert "Against all other centers together" not in alone
    assert "by each center to its own sums" in alone
    assert "It also holds against the other centers" in alone


@pytest.mark.parametrize("told", [promises, promises_in_short])
def test_the_larger_epsilon_against_other_centers_is_told(
    told: Callable[[Guarantee], list[TitledText]],
) -> None:
    promised = Guarantee(1.0, 1e-5, 61, 38.25, 1.0, masked=True, epsilon_against_centers=1.826)
    text = " ".join(part.text for part in told(promised))
    # e^1.826 / (e^1.826 + 1) = 0.86129…
    assert "epsilon is 1.83, and such a guess is right in at most 86.2 % of cases" in text


def test_an_epsilon_against_other_centers_that_is_not_known_or_not_bounded_says_so() -> None:
    promised = guarantee(1.0)
    assert against_centers(promised).endswith("epsilon is larger.")
    nothing = replace(promised, epsilon_against_centers=math.inf)
    assert against_centers(nothing).endswith("nothing is promised.")


@pytest.mark.parametrize("told", [promises, promises_in_short])
def test_nobody_misses_what_is_not_promised(
    told: Callable[[Guarantee], list[TitledText]],
) -> None:
    text = " ".join(part.text for part in told(guarantee(1.0)))
    for words in (
        "for this one study",
        "not for groups",
        "did not arrive",
        "would break the promise",
    ):
        assert words in text
