from __future__ import annotations

import numpy as np
import pytest
from lifelines.utils import concordance_index as lifelines_index

from fedcox.evaluation.folds import center_test_set, fold_numbers, fold_test_set
from fedcox.evaluation.held_out import held_out_patients, judge, training_federation
from fedcox.evaluation.scheme import LinearRisk, Recipe
from fedcox.survival.cohort import Cohort
from tests.evaluation.quick_schemes import (
    BatchMean,
    Blind,
    Dice,
    FirstColumn,
    ForAndAgainst,
    Silent,
)
from tests.problems import simulated, split

RECIPE = Recipe()
WHOLE = simulated(120, 3, seed=5)
CENTERS = split(WHOLE, np.arange(120) % 4, 4)


def test_the_index_is_that_of_lifelines_on_the_test_patients_of_all_centers() -> None:
    numbers = fold_numbers(CENTERS, 5, seed=2)
    found = judge(FirstColumn(), CENTERS, fold_test_set(numbers, 3), RECIPE, seed=0)
    inside = {name: numbers[name] == 3 for name in CENTERS}
    time, event, risk = (
        np.concatenate([values[inside[name]] for name, values in parts.items()])
        for parts in (
            {name: cohort.time for name, cohort in CENTERS.items()},
            {name: cohort.event for name, cohort in CENTERS.items()},
            {name: cohort.covariates[:, 0] for name, cohort in CENTERS.items()},
        )
    )
    assert found.c_index == pytest.approx(lifelines_index(time, -risk, event), abs=1e-14)
    assert found.patients == time.size
    assert found.events == event.sum()
    assert found.trained_on == 120 - time.size
    assert (found.rounds, found.bytes_up, found.bytes_down, found.notes) == (2, 8, 0, ())
    assert found.seconds > 0


def test_training_patients_are_those_outside_the_test_set_numbered_in_their_order() -> None:
    numbers = fold_numbers(CENTERS, 5, seed=2)
    test_set = fold_test_set(numbers, 1)
    federation = training_federation(CENTERS, test_set)
    tested = held_out_patients(CENTERS, test_set)
    known = np.concatenate([center.cohort.number for center in federation.centers])
    assert sorted(known) == list(range(120 - tested.patients))
    inside = np.concatenate([CENTERS[name].number[test_set[name]] for name in CENTERS])
    outside = np.setdiff1d(np.arange(120), inside)
    for center in federation.centers:
        there = WHOLE.covariates[outside[center.cohort.number]]
        assert np.array_equal(center.cohort.covariates, there)


def test_batches_over_training_patients_do_not_depend_on_their_centers() -> None:
    """The same test patients, split over centers in other ways, and under other names."""
    tested = np.zeros(120, dtype=bool)
    tested[5::7] = True
    indices = set()
    for assignment in (np.arange(120) % 4, np.arange(120) // 60, np.arange(120)[::-1] % 3):
        cohorts = split(WHOLE, assignment, 4)
        test_set = {name: tested[cohort.number] for name, cohort in cohorts.items()}
        indices.add(judge(BatchMean(), cohorts, test_set, RECIPE, seed=11).c_index)
    assert len(indices) == 1


def test_a_center_left_out_is_not_trained_on_even_as_an_empty_one() -> None:
    federation = training_federation(CENTERS, center_test_set(CENTERS, "center 02"))
    assert federation.names == ("center 00", "center 01", "center 03")


def test_several_models_have_the_mean_of_their_indices_and_warnings_become_notes() -> None:
    numbers = fold_numbers(CENTERS, 5, seed=0)
    found = judge(ForAndAgainst(), CENTERS, fold_test_set(numbers, 1), RECIPE, seed=0)
    assert found.c_index == pytest.approx(0.5, abs=1e-15)
    assert found.notes == ("Torn.", "Two opinions.")


def test_the_seed_decides_what_is_drawn() -> None:
    test_set = fold_test_set(fold_numbers(CENTERS, 5, seed=0), 1)
    found = [judge(Dice(), CENTERS, test_set, RECIPE, seed=seed) for seed in (1, 1, 2)]
    assert found[0].c_index == found[1].c_index != found[2].c_index


# No index: None and a sentence, never one half


def without_events() -> dict[str, Cohort]:
    return {
        name: Cohort(cohort.covariates, cohort.time, np.zeros_like(cohort.event))
        for name, cohort in CENTERS.items()
    }


def test_a_test_set_without_events_has_no_index() -> None:
    cohorts = without_events()
    found = judge(FirstColumn(), cohorts, center_test_set(cohorts, "center 00"), RECIPE, seed=0)
    assert found.c_index is None
    assert found.events == 0
    assert found.notes == ("The test set has no event, so there is no c-index.",)


def test_a_test_set_without_comparable_pairs_has_no_index() -> None:
    last = Cohort(np.zeros((2, 3)), np.array([1.0, 9.0]), np.array([False, True]))
    cohorts = {**CENTERS, "last": last}
    found = judge(FirstColumn(), cohorts, center_test_set(cohorts, "last"), RECIPE, seed=0)
    assert found.c_index is None
    assert found.notes == (
        "No two patients of the test set can be compared, so there is no c-index.",
    )


@pytest.mark.parametrize(
    ("scheme", "notes"),
    [
        (Silent(), ("No center has an event. Look again.", "No model could be trained.")),
        (Silent(loudly=False), ("Every center is too small.", "No model could be trained.")),
    ],
)
def test_a_scheme_that_cannot_train_has_no_index(
    scheme: Silent, notes: tuple[str, ...]
) -> None:
    test_set = center_test_set(CENTERS, "center 00")
    found = judge(scheme, CENTERS, test_set, RECIPE, seed=0)
    assert found.c_index is None
    assert found.notes == notes


def test_a_risk_that_is_no_number_has_no_index() -> None:
    found = judge(Blind(), CENTERS, center_test_set(CENTERS, "center 00"), RECIPE, seed=0)
    assert found.c_index is None
    assert "30 patient(s) have no risk" in found.notes[0]


def test_no_scheme_learns_from_what_happens_after_the_horizon() -> None:
    horizon = float(np.median(WHOLE.time))
    test_set = {name: np.zeros(part.patients, dtype=np.bool_) for name, part in CENTERS.items()}
    federation = training_federation(CENTERS, test_set, horizon=horizon)
    for center in federation.centers:
        whole, cut = CENTERS[center.name], center.cohort
        np.testing.assert_array_equal(cut.time, np.minimum(whole.time, horizon))
        np.testing.assert_array_equal(cut.event, whole.event & (whole.time <= horizon))


def test_equal_patients_have_equal_risks_to_the_bit() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(11, 7))
    for size in range(20, 60):
        chosen_rows = rng.integers(11, size=size)
        risks = LinearRisk(rng.normal(size=7), np.zeros(7)).risk(rows[chosen_rows])
        assert np.unique(risks).size == np.unique(chosen_rows).size
