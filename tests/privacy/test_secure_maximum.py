"""The sum of markers shows how far anyone reaches, and not how many do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcox.privacy.fixed_point import UIntArray, highest, markers
from tests.privacy.parties import Hospitals

RUNS = 4000


@given(data=st.data(), cells=st.integers(0, 60))
def test_the_highest_cell_of_the_sum_is_the_farthest_any_center_reaches(
    data: Any, cells: int
) -> None:
    reached = data.draw(st.lists(st.integers(0, cells), min_size=1, max_size=8))
    total = np.add.reduce([markers(own, cells) for own in reached])
    assert highest(total) == (max(reached) - 1 if max(reached) else None)


def test_every_marker_below_the_maximum_differs_from_zero_and_none_above() -> None:
    marked = markers(5000, 6000)
    assert np.all(marked[:5000] != 0)
    assert np.all(marked[5000:] == 0)


@pytest.mark.parametrize("reached", [-1, 61])
def test_a_maximum_beyond_the_grid_is_not_marked(reached: int) -> None:
    with pytest.raises(ValueError, match="cannot be reached"):
        markers(reached, 60)


def parity_is_hidden(drawn: UIntArray, other: UIntArray) -> bool:
    """Whether the lowest bit is a fair coin for both numbers of centers."""
    ones = np.array([np.sum(values & np.uint64(1)) for values in (drawn, other)], dtype=float)
    # Five standard deviations of a fair coin.
    return bool(np.all(np.abs(ones / RUNS - 0.5) < 5 * 0.5 / np.sqrt(RUNS)))


def test_the_sum_does_not_show_how_many_centers_reach_a_cell() -> None:
    three, four = (
        np.add.reduce([markers(RUNS, RUNS) for _ in range(centers)]) for centers in (3, 4)
    )
    assert parity_is_hidden(three, four)
    # The first idea, markers that are odd, fails: their sum's parity is that of the count.
    odd_three, odd_four = (
        np.add.reduce([markers(RUNS, RUNS) | np.uint64(1) for _ in range(centers)])
        for centers in (3, 4)
    )
    assert not parity_is_hidden(odd_three, odd_four)


@pytest.mark.parametrize("dropped", [(), (0,), (1, 2)])
def test_under_masks_the_maximum_is_that_of_the_centers_that_answered(
    dropped: tuple[int, ...],
) -> None:
    hospitals = Hospitals(5).ready()
    reached = dict(zip(hospitals.names, (17, 44, 3, 29, 0), strict=True))
    without = {hospitals.names[index] for index in dropped}
    vectors = {name: markers(own, 60) for name, own in reached.items()}
    result = hospitals.sum(vectors, without=without)
    assert highest(result.total) == max(reached[name] for name in result.survivors) - 1
