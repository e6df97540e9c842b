from __future__ import annotations

import numpy as np
from scipy.stats import chisquare

from fedcox.federation.batch import CellBatch, PatientBatch


def test_a_patient_batch_is_the_same_however_often_it_is_drawn() -> None:
    drawn = PatientBatch(3, 7, 50, 1000).numbers()
    np.testing.assert_array_equal(drawn, PatientBatch(3, 7, 50, 1000).numbers())
    assert not np.array_equal(drawn, PatientBatch(3, 8, 50, 1000).numbers())
    assert not np.array_equal(drawn, PatientBatch(4, 7, 50, 1000).numbers())


def test_a_cell_batch_is_the_same_in_whatever_order_steps_are_asked() -> None:
    forward = [CellBatch(3, step, 40_000, 900, 30).pairs() for step in range(1, 6)]
    for step in (4, 1, 5, 2, 3):
        for ours, theirs in zip(
            CellBatch(3, step, 40_000, 900, 30).pairs(), forward[step - 1], strict=True
        ):
            np.testing.assert_array_equal(ours, theirs)


def test_no_two_steps_and_no_two_seeds_share_a_batch() -> None:
    batches = [
        CellBatch(seed, step, 6, 10**6, 10**6).pairs() for seed in (0, 1) for step in range(500)
    ]
    assert len({tuple(np.concatenate(pair).tolist()) for pair in batches}) == len(batches)


def test_candidates_are_uniform_over_patients_and_intervals() -> None:
    numbers, intervals = np.concatenate(
        [CellBatch(1, step, 5000, 6, 5).pairs() for step in range(20)], axis=1
    )
    assert chisquare(np.bincount(5 * numbers + intervals, minlength=30)).pvalue > 1e-3
