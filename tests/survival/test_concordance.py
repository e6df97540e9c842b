from __future__ import annotations

import numpy as np
import pytest
from lifelines.utils import concordance_index as lifelines_index

from fedcox.errors import CohortError
from fedcox.survival.concordance import Concordance, concordance_index


def test_the_higher_risk_having_the_event_first_is_concordant() -> None:
    assert concordance_index([1, 2, 3], [1, 1, 1], [3, 2, 1]) == Concordance(3, 0, 3)
    assert concordance_index([1, 2, 3], [1, 1, 1], [1, 2, 3]) == Concordance(0, 0, 3)


def test_a_tie_in_risk_counts_half() -> None:
    concordance = concordance_index([1, 2, 3], [1, 1, 1], [2, 2, 1])
    assert concordance == Concordance(2, 1, 3)
    assert concordance.index == pytest.approx(2.5 / 3, abs=1e-15)


def test_pairs_whose_earlier_time_is_censored_are_not_comparable() -> None:
    assert concordance_index([1, 2, 3], [0, 1, 0], [9, 2, 1]) == Concordance(1, 0, 1)


@pytest.mark.parametrize("event", [[1, 0], [0, 1]])
def test_at_the_same_time_the_censored_patient_outlived_the_event(event: list[int]) -> None:
    assert concordance_index([4, 4], event, event) == Concordance(1, 0, 1)


def test_two_events_at_the_same_time_are_not_comparable() -> None:
    assert concordance_index([4, 4, 4], [1, 1, 1], [3, 1, 1]) == Concordance(0, 0, 0)
    assert concordance_index([4, 4, 4], [1, 1, 0], [3, 1, 1]) == Concordance(1, 1, 2)


@pytest.mark.parametrize(
    ("time", "event"), [([], []), ([1.0], [True]), ([1.0, 2.0], [False, True])]
)
def test_without_a_comparable_pair_there_is_no_index(
    time: list[float], event: list[bool]
) -> None:
    concordance = concordance_index(time, event, np.zeros(len(time)))
    assert concordance == Concordance(0, 0, 0)
    assert concordance.index is None


def test_infinite_and_signed_zero_risks_are_ordered_as_numbers() -> None:
    risk = [np.inf, np.inf, 0.0, -0.0, -np.inf]
    assert concordance_index([1, 2, 3, 4, 5], [1] * 5, risk) == Concordance(8, 2, 10)


@pytest.mark.parametrize("patients", [2, 3, 100, 1000, 4097])
@pytest.mark.parametrize("times", ["distinct", "tied"])
@pytest.mark.parametrize("risks", ["distinct", "tied"])
def test_the_index_is_that_of_lifelines(patients: int, times: str, risks: str) -> None:
    rng = np.random.default_rng(patients)
    risk = rng.normal(size=patients)
    time = rng.exponential(np.exp(-risk))
    event = rng.random(patients) < 0.4
    event[np.argmin(time)] = True
    if times == "tied":
        time = np.ceil(time * 10)
        event[np.argmin(time)] = True
        time[-1], event[-1] = time.max() + 1, False  # at least one pair, as lifelines asks
    if risks == "tied":
        risk = np.round(risk)
    ours = concordance_index(time, event, risk).index
    theirs = lifelines_index(time, -risk, event)
    assert ours == pytest.approx(theirs, abs=1e-12)


def test_the_arrays_of_the_caller_stay_as_they_are() -> None:
    time, event, risk = np.array([3.0, 1.0]), np.array([True, True]), np.array([1.0, 2.0])
    concordance_index(time, event, risk)
    assert time.tolist() == [3.0, 1.0]
    assert event.tolist() == [True, True]
    assert risk.tolist() == [1.0, 2.0]


def test_every_fault_of_the_arrays_is_reported_at_once() -> None:
    with pytest.raises(CohortError) as raised:
        concordance_index([1.0, np.nan], [True, False], [np.nan, np.nan, 3.0])
    text = str(raised.value)
    assert "same length" in text
    assert "1 patient(s) have no time" in text
    assert "2 patient(s) have no risk" in text


def test_a_column_is_not_mistaken_for_a_vector() -> None:
    with pytest.raises(CohortError, match="one dimension"):
        concordance_index(np.ones((2, 1)), np.ones((2, 1)), np.ones((2, 1)))
