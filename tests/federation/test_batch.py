from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chisquare

from fedcox.federation.batch import CellBatch, EpochBatch, EpochCells, HeldOut, PatientBatch


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


HELD = HeldOut(3, 0.2, 50)


def test_held_out_and_others_are_everybody_once() -> None:
    both = np.concatenate([HELD.numbers(), HELD.others()])
    assert np.sort(both).tolist() == list(range(50))
    assert HELD.numbers().size == HELD.size == 10
    assert HeldOut(3, 0.2, 50).numbers().tolist() == HELD.numbers().tolist()
    assert HeldOut(4, 0.2, 50).numbers().tolist() != HELD.numbers().tolist()


@pytest.mark.parametrize(("share", "population", "size"), [(1e-9, 5, 1), (0.999, 5, 4)])
def test_somebody_is_held_out_and_somebody_is_not(
    share: float, population: int, size: int
) -> None:
    assert HeldOut(0, share, population).size == size


@pytest.mark.parametrize("left_out", [None, HELD])
def test_an_epoch_has_every_patient_once(left_out: HeldOut | None) -> None:
    everyone = list(range(50)) if left_out is None else left_out.others().tolist()
    orders = []
    for epoch in (1, 2):
        pieces = [EpochBatch(7, epoch, index, 8, 50, left_out) for index in range(7)]
        assert [len(piece.numbers()) for piece in pieces] == [p.patients for p in pieces]
        order = np.concatenate([piece.numbers() for piece in pieces]).tolist()
        assert sorted(order) == everyone
        orders.append(order)
    assert orders[0] != orders[1]


@pytest.mark.parametrize("left_out", [None, HELD])
def test_an_epoch_of_cells_has_every_pair_once(left_out: HeldOut | None) -> None:
    everyone = np.arange(50) if left_out is None else left_out.others()
    pieces = [EpochCells(7, 1, index, 64, 50, 6, left_out) for index in range(5)]
    drawn = [piece.pairs() for piece in pieces]
    assert [len(numbers) for numbers, _ in drawn] == [piece.drawn for piece in pieces]
    pairs = {
        (n, m) for numbers, intervals in drawn for n, m in zip(numbers, intervals, strict=True)
    }
    assert pairs == {(n, m) for n in everyone.tolist() for m in range(6)}
    assert sum(piece.drawn for piece in pieces) == len(pairs)


def test_no_center_can_write_into_what_all_share() -> None:
    for numbers in (HELD.numbers(), EpochBatch(1, 1, 0, 5, 50).numbers()):
        with pytest.raises(ValueError, match="read-only"):
            numbers[0] = 1
