from __future__ import annotations

from itertools import combinations
from random import Random
from typing import Literal

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from lifelines.utils import concordance_index as lifelines_index
from sksurv.metrics import concordance_index_censored

from fedcox.engines.in_process import InProcess
from fedcox.study.fit import fit
from fedcox.study.fitted import FittedStudy
from fedcox.study.study import Study
from fedcox.survival.cohort import Cohort, IntArray
from fedcox.survival.concordance import Concordance, concordance_index
from fedcox.survival.scaling import linear_predictor
from tests.problems import split

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


# Scores: a patient's alone, so that the index of a fit knows nothing of centers

EIGHT, ELEVEN = ([f"x{number}" for number in range(columns)] for columns in (8, 11))


def study_of(columns: list[str]) -> Study:
    return Study(
        outcome={"time": "time", "event": "event"},
        covariates=columns,
        grid={"width": 10, "horizon": 100},
    )


def binary(patients: int, columns: int, seed: int) -> Cohort:
    """Patients many of whom are alike: zero or one in every column."""
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 2, (patients, columns)).astype(float)
    event_time = rng.exponential(40 * np.exp(-x @ np.linspace(-0.6, 0.8, columns)))
    censoring = rng.uniform(1, 150, patients)
    time = np.ceil(np.minimum(event_time, censoring))
    return Cohort(x, time, event_time <= censoring)


ALIKE = binary(240, 8, seed=2)


def split_fit(cohort: Cohort, columns: list[str], center: IntArray) -> FittedStudy:
    centers = split(cohort, center, int(center.max()) + 1)
    return fit(study_of(columns), InProcess.from_cohorts(centers))


def other_libraries(cohort: Cohort, columns: list[str], fitted: FittedStudy) -> list[float]:
    risk = fitted.predict_log_risk(pd.DataFrame(cohort.covariates, columns=columns))
    return [
        lifelines_index(cohort.time, -risk, cohort.event),
        concordance_index_censored(cohort.event, cohort.time, risk)[0],
    ]


@given(st.lists(st.integers(0, 60), min_size=240, max_size=240))
@example([0] * 240)
@example(list(range(240)))  # one patient each
@example([7 * number for number in range(240)])  # and most centers empty
@settings(max_examples=20)
def test_the_index_of_a_fit_does_not_depend_on_the_split(center: list[int]) -> None:
    pooled = split_fit(ALIKE, EIGHT, np.zeros(240, dtype=np.int64))
    whole = split_fit(ALIKE, EIGHT, np.array(center))
    assert whole.concordance == pooled.concordance
    for other in other_libraries(ALIKE, EIGHT, whole):
        assert whole.concordance == pytest.approx(other, abs=1e-14)


def test_the_index_of_thousands_in_unequal_centers_is_the_pooled_one() -> None:
    cohort = binary(3000, 11, seed=5)
    pooled = split_fit(cohort, ELEVEN, np.zeros(3000, dtype=np.int64))
    center = np.minimum(np.random.default_rng(1).geometric(0.4, 3000) - 1, 6)
    whole = split_fit(cohort, ELEVEN, center)
    assert whole.concordance == pooled.concordance
    for other in other_libraries(cohort, ELEVEN, whole):
        assert whole.concordance == pytest.approx(other, abs=1e-14)


@given(
    st.integers(0, 40), st.integers(0, 60), st.sampled_from("CF"), st.booleans(), st.integers(0)
)
def test_a_patients_score_is_the_same_alone_and_among_any_others(
    patients: int, columns: int, order: Literal["C", "F"], incomplete: bool, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    x, beta, mean = (rng.normal(size=size) for size in ((patients, columns), columns, columns))
    if incomplete:
        x[rng.random(x.shape) < 0.2] = np.nan
    center = mean if incomplete or seed % 2 else None
    together = linear_predictor(np.asarray(x, order=order), beta, mean=center)
    alone = [linear_predictor(row[None], beta, mean=center)[0] for row in x]
    assert together.tolist() == alone
    filled = np.where(np.isnan(x), mean, x) - (0.0 if center is None else center)
    np.testing.assert_allclose(together, filled @ beta, rtol=1e-12, atol=1e-12)
