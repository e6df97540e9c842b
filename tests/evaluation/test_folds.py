"""Folds, and the seeds that deal them."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedcox.errors import InputError
from fedcox.evaluation.folds import (
    center_test_set,
    fold_numbers,
    fold_test_set,
    left_out_faults,
)
from fedcox.evaluation.seeds import derived_generator, derived_seed
from fedcox.survival.cohort import Cohort


def test_every_seed_fold_and_scheme_has_a_seed_of_its_own() -> None:
    names = list(product(range(20), ("folds", "left out"), range(1, 6), ("POOL", "DT-FL")))
    seeds = [derived_seed(*name) for name in names]
    assert len(set(seeds)) == len(names)
    assert all(0 <= seed < 2**31 for seed in seeds)


def test_a_number_and_its_digits_are_two_names_and_words_are_not_run_together() -> None:
    assert derived_seed(0, 1) != derived_seed(0, "1")
    assert derived_seed(0, "ab", "c") != derived_seed(0, "a", "bc")


def test_a_derived_seed_never_changes() -> None:
    # Stored runs can only be repeated as long as these hold.
    assert derived_seed(0, "folds", 1, "POOL") == PINNED
    assert int(derived_generator(0, "patients").integers(10**9)) == PINNED_DRAW


PINNED = 629774481
PINNED_DRAW = 64954763


def center(events: int, censored: int) -> Cohort:
    patients = events + censored
    event = np.arange(patients) < events
    return Cohort(np.zeros((patients, 1)), np.arange(1.0, patients + 1), event)


#: Any centers of at least eight patients, some without events and some with nothing else.
centers = st.lists(
    st.tuples(st.integers(0, 30), st.integers(0, 30)).filter(lambda c: sum(c) >= 8),
    min_size=1,
    max_size=12,
).map(lambda sizes: {f"center {k}": center(*size) for k, size in enumerate(sizes)})


@settings(max_examples=150)
@given(cohorts=centers, folds=st.integers(2, 8), seed=st.integers(0, 10_000))
def test_folds_of_a_center_differ_by_one_patient_and_one_event_at_most(
    cohorts: dict[str, Cohort], folds: int, seed: int
) -> None:
    numbers = fold_numbers(cohorts, folds, seed=seed)
    assert list(numbers) == sorted(cohorts)
    for name, cohort in cohorts.items():
        number = numbers[name]
        assert number.shape == (cohort.patients,)
        sizes = np.bincount(number, minlength=folds + 1)
        events = np.bincount(number[cohort.event], minlength=folds + 1)
        assert sizes[0] == 0
        assert sizes.size == folds + 1
        assert np.ptp(sizes[1:]) <= 1
        assert np.ptp(events[1:]) <= 1


@settings(max_examples=150)
@given(cohorts=centers, folds=st.integers(2, 8), seed=st.integers(0, 10_000))
def test_a_test_set_is_without_events_only_if_there_are_fewer_events_than_folds(
    cohorts: dict[str, Cohort], folds: int, seed: int
) -> None:
    numbers = fold_numbers(cohorts, folds, seed=seed)
    events = sum(
        np.bincount(numbers[name][cohort.event], minlength=folds + 1)[1:]
        for name, cohort in cohorts.items()
    )
    assert np.ptp(events) <= 1
    assert (np.sum(events) < folds) == bool(np.min(events) == 0)


@settings(max_examples=50)
@given(cohorts=centers, folds=st.integers(2, 8), seed=st.integers(0, 10_000))
def test_test_sets_of_a_run_are_a_partition_of_all_patients(
    cohorts: dict[str, Cohort], folds: int, seed: int
) -> None:
    numbers = fold_numbers(cohorts, folds, seed=seed)
    sets = [fold_test_set(numbers, fold) for fold in range(1, folds + 1)]
    for name, cohort in cohorts.items():
        times_tested = np.sum([one[name] for one in sets], axis=0)
        assert np.array_equal(times_tested, np.ones(cohort.patients))


def test_many_small_centers_make_test_sets_of_equal_size() -> None:
    cohorts = {f"clinic {k:02d}": center(k % 2, 6 - k % 2) for k in range(50)}
    numbers = np.concatenate(list(fold_numbers(cohorts, 5, seed=1).values()))
    assert np.ptp(np.bincount(numbers)[1:]) <= 1


def test_folds_are_the_seeds_and_the_center_names_whatever_the_order() -> None:
    cohorts = {name: center(13, 21) for name in "abcd"}
    first = fold_numbers(cohorts, 5, seed=7)
    again = fold_numbers(dict(reversed(cohorts.items())), 5, seed=7)
    other = fold_numbers(cohorts, 5, seed=8)
    for name in cohorts:
        assert np.array_equal(first[name], again[name])
        assert not np.array_equal(first[name], other[name])
    assert not np.array_equal(first["a"], first["b"])


def test_every_patient_is_as_likely_in_one_fold_as_in_another() -> None:
    cohorts = {"a": center(3, 4), "b": center(5, 8)}
    runs = [fold_numbers(cohorts, 4, seed=seed) for seed in range(2000)]
    for name, cohort in cohorts.items():
        drawn = np.array([run[name] for run in runs])
        for patient in range(cohort.patients):
            shares = np.bincount(drawn[:, patient], minlength=5)[1:] / len(runs)
            assert np.abs(shares - 0.25).max() < 5 * np.sqrt(0.25 * 0.75 / len(runs))


def test_a_center_with_fewer_patients_than_folds_is_named_with_its_size() -> None:
    cohorts = {"big": center(10, 10), "small": center(1, 2), "one": center(0, 1)}
    with pytest.raises(InputError, match="5 folds") as raised:
        fold_numbers(cohorts, 5, seed=0)
    (fault,) = raised.value.faults
    assert "2 centers have fewer patients" in fault
    assert "one (1 patient), small (3 patients)" in fault
    assert "leave these centers out" in fault
    with pytest.raises(InputError, match="take 3 folds at most"):
        fold_numbers({"big": center(9, 9), "small": center(1, 2)}, 5, seed=0)
    with pytest.raises(InputError, match="two are the least"):
        fold_numbers({"big": center(9, 9)}, 1, seed=0)


def test_a_center_without_patients_takes_part_with_nothing() -> None:
    numbers = fold_numbers({"full": center(5, 5), "empty": center(0, 0)}, 5, seed=0)
    assert numbers["empty"].size == 0
    assert set(numbers["full"]) == {1, 2, 3, 4, 5}


def test_a_center_left_out_is_tested_whole_and_alone() -> None:
    cohorts = {"a": center(2, 3), "b": center(1, 1)}
    tested = center_test_set(cohorts, "b")
    assert not tested["a"].any()
    assert tested["b"].all()
    assert left_out_faults(cohorts) == []
    (fault,) = left_out_faults({"a": center(2, 3), "empty": center(0, 0)})
    assert "1 center with patients" in fault
