"""None"""

from __future__ import annotations

import numpy as np

from fedcox.evaluation.attacks.attack_setting import Candidate, TruePatients, matches

PATIENTS = TruePatients(
    np.array([[0.0, 1.0], [0.0, 1.0], [2.0, -1.0], [5.0, 5.0]]),
    np.array([3, 3, 1, 2]),
    np.array([True, True, False, False]),
)


def found(*claims: Candidate) -> list[int]:
    return sorted(matches(claims, PATIENTS).tolist())


def test_every_covariate_must_be_within_a_hundredth() -> None:
    assert found(Candidate(np.array([2.009, -1.009]))) == [2]
    assert found(Candidate(np.array([2.011, -1.0]))) == []
    assert found(Candidate(np.array([2.0, 1.0]))) == []


def test_a_claimed_outcome_must_be_right() -> None:
    x = np.array([2.0, -1.0])
    assert found(Candidate(x, intervals=1, event=False)) == [2]
    assert found(Candidate(x, intervals=2)) == []
    assert found(Candidate(x, event=True)) == []


def test_one_claim_finds_one_patient_and_saying_it_again_does_not_help() -> None:
    twins, other = Candidate(np.array([0.0, 1.0])), Candidate(np.array([5.0, 5.0]))
    assert len(found(twins)) == 1
    assert found(twins, twins, twins) == [0, 1]
    assert found(other, other) == [3]


def test_what_is_no_number_is_no_patient() -> None:
    assert found(Candidate(np.array([np.nan, 1.0])), Candidate(np.array([np.inf, 1.0]))) == []


def test_no_claim_finds_nobody() -> None:
    assert found() == []
