"""Sums that leave with noise: exact in any order, and on the grid of their noise."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedcox.federation.queries.bounded_sums import AbstractBoundedSum
from tests.engines.codec.examples import COHORT, QUESTIONS
from tests.problems import split

SUMS: dict[str, Any] = {
    name: query for name, query in QUESTIONS.items() if isinstance(query, AbstractBoundedSum)
}
every_sum = pytest.mark.parametrize("name", SUMS)


@every_sum
def test_any_split_over_centers_gives_the_pooled_sum_to_the_last_bit(name: str) -> None:
    query, rng = SUMS[name], np.random.default_rng(2)
    whole = query.answer(COHORT)
    assert np.count_nonzero(whole) > 0
    for centers in (2, 7):
        parts = split(COHORT, rng.integers(0, centers, COHORT.patients), centers)
        total = np.sum([query.answer(part) for part in parts.values()], axis=0)
        np.testing.assert_array_equal(total, whole)


@every_sum
def test_a_sum_lies_on_the_grid_of_its_noise(name: str) -> None:
    query = SUMS[name]
    units = query.answer(COHORT) / query.release.resolution
    np.testing.assert_array_equal(units, np.rint(units))


@every_sum
def test_other_noise_is_another_question(name: str) -> None:
    query = SUMS[name]
    same = replace(query, release=replace(query.release))
    other = replace(query, release=replace(query.release, noise_multiplier=77.0))
    assert query.digest == same.digest != other.digest


@every_sum
@pytest.mark.parametrize("sensitivity", [1.5, 3e5, 2.0**60])
def test_whatever_bound_is_asked_for_any_patients_get_a_reply(
    name: str, sensitivity: float
) -> None:
    """Else whether there is one would tell how many patients there are, without noise."""
    query = replace(SUMS[name], release=replace(SUMS[name].release, sensitivity=sensitivity))
    for patients in range(COHORT.patients):
        total = query.summed(COHORT, np.arange(patients))
        units = total / query.release.resolution
        assert (units == np.rint(units)).all()


@every_sum
def test_whatever_bound_is_asked_for_no_patient_adds_more(name: str) -> None:
    """A coordinator that cheats may name one that is too small; noise is chosen by it."""
    query = replace(SUMS[name], release=replace(SUMS[name].release, sensitivity=1e-3))
    for patient in range(COHORT.patients):
        own = query.summed(COHORT, np.array([patient]))
        # Each number is rounded to the grid, which the noise allows for.
        rounding = query.release.resolution * np.sqrt(query.size) / 2.0
        assert np.linalg.norm(own) <= 1e-3 + rounding
