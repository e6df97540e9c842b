from __future__ import annotations

from itertools import combinations
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lifelines.utils import concordance_index as lifelines_index

from fedcox.survival.concordance import Concordance, concordance_index

Patient = tuple[int, bool, int]  # time, event, risk

# Few different values, so that ties of every kind are common.
PATIENTS = st.lists(
    st.tuples(st.integers(1, 12), st.booleans(), st.integers(-6, 6)), max_size=70
)


def count_pairs(patients: list[Patient]) -> Concordance:
    """Every pair looked at, one by one: the definition."""
    concordant = tied = comparable = 0
    for pair in combinations(patients, 2):
        # At one time, the event comes before the censoring.
        first, second = sorted(pair, key=lambda patient: (patient[0], not patient[1]))
        if not first[1] or (second[1] and first[0] == second[0]):
            continue
        comparable += 1
        concordant += first[2] > second[2]
        tied += first[2] == second[2]
    return Concordance(concordant, tied, comparable)


def concordance_of(patients: list[Patient], sign: int = 1) -> Concordance:
    time, event, risk = np.array(patients, dtype=float).reshape(-1, 3).T
    return concordance_index(time, event, sign * risk)


@given(PATIENTS)
def test_sorting_counts_every_pair_of_the_definition(patients: list[Patient]) -> None:
    assert concordance_of(patients) == count_pairs(patients)


@given(PATIENTS)
def test_the_index_is_that_of_lifelines_whatever_the_ties(patients: list[Patient]) -> None:
    ours = concordance_of(patients).index
    if ours is not None:
        time, event, risk = np.array(patients, dtype=float).T
        assert ours == pytest.approx(lifelines_index(time, -risk, event), abs=1e-12)


@given(PATIENTS, st.sampled_from([np.exp, np.arctan, np.cbrt]))
def test_an_increasing_transform_of_the_risk_changes_nothing(
    patients: list[Patient], transform: np.ufunc
) -> None:
    time, event, risk = np.array(patients, dtype=float).reshape(-1, 3).T
    transformed = concordance_index(time, event, transform(risk))
    assert transformed == concordance_index(time, event, risk)


@given(PATIENTS)
def test_negating_the_risk_gives_one_minus_the_index(patients: list[Patient]) -> None:
    plain, negated = concordance_of(patients), concordance_of(patients, sign=-1)
    assert negated.comparable == plain.comparable
    assert negated.tied == plain.tied
    assert negated.concordant == plain.comparable - plain.tied - plain.concordant
    if plain.index is not None and negated.index is not None:
        assert negated.index == pytest.approx(1 - plain.index, abs=1e-15)


@given(PATIENTS, st.randoms(use_true_random=False))
def test_the_order_of_the_patients_does_not_matter(
    patients: list[Patient], random: Random
) -> None:
    shuffled = list(patients)
    random.shuffle(shuffled)
    assert concordance_of(shuffled) == concordance_of(patients)
