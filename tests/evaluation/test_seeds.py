from __future__ import annotations

from itertools import product

from fedcox.evaluation.seeds import derived_generator, derived_seed


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
