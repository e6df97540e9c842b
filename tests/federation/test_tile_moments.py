"""Second moments of tiles: sums over patients, whoever holds them and however they travel."""

from __future__ import annotations

from functools import reduce

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedcox.engines.codec.replies import decode_reply, encode_reply
from fedcox.engines.codec.tree import from_bytes, to_bytes
from fedcox.engines.in_process import InProcess
from fedcox.engines.masked import Masked
from fedcox.errors import CohortError, MessageError
from fedcox.federation.queries.tile_counts import PatientsAndTiles, TileCounts
from fedcox.federation.queries.tile_moments import TileMoments, TileMomentSums
from fedcox.survival.bags import Bags, SlideArray
from fedcox.survival.cohort import Cohort
from tests.slides.shifted_tiles import all_tiles, shifted_tiles, tiled_cohort

COHORT = tiled_cohort()
TILES = all_tiles(COHORT)
ASKED = TileMoments(48)
POOLED = ASKED.answer(COHORT)


def parts(center: list[int]) -> dict[str, Cohort]:
    where = np.array(center)
    return {f"center {k}": COHORT.take(where == k) for k in range(max(center) + 2)}


def test_they_are_the_products_of_all_tiles() -> None:
    assert POOLED.patients == COHORT.patients
    assert POOLED.tiles == len(TILES)
    exact = TILES.T @ TILES
    np.testing.assert_allclose(POOLED.second, exact, rtol=1e-12)
    np.testing.assert_array_equal(POOLED.second, POOLED.second.T)


def test_moments_of_half_floats_are_those_of_doubles_over_many_tiles() -> None:
    tiles = np.concatenate([shifted_tiles(4000, seed=k, shift=9) for k in range(3)])
    bag = Bags(((SlideArray(tiles),),), 48)
    cohort = Cohort(np.empty((1, 0)), np.ones(1), np.ones(1, dtype=np.bool_), bags=bag)
    double = tiles.astype(np.float64)
    np.testing.assert_allclose(ASKED.answer(cohort).second, double.T @ double, rtol=1e-12)


@given(center=st.lists(st.integers(0, 4), min_size=30, max_size=30))
@settings(max_examples=25)
def test_any_split_over_centers_gives_the_pooled_moments(center: list[int]) -> None:
    found = InProcess.from_cohorts(parts(center)).ask(ASKED)
    assert (found.patients, found.tiles) == (POOLED.patients, POOLED.tiles)
    np.testing.assert_allclose(found.upper, POOLED.upper, rtol=1e-12)


def test_replies_combine_in_any_order() -> None:
    replies = [ASKED.answer(part) for part in parts([k % 4 for k in range(30)]).values()]
    forward, backward = (reduce(ASKED.combine, some) for some in (replies, replies[::-1]))
    np.testing.assert_allclose(forward.upper, backward.upper, rtol=1e-13)
    again = ASKED.unpack(ASKED.pack(forward))
    assert (again.patients, again.tiles) == (forward.patients, forward.tiles)
    np.testing.assert_array_equal(again.upper, forward.upper)
    assert ASKED.numbers_in(forward) == 2 + 48 * 49 // 2


@pytest.mark.parametrize("scale", [1e-5, 1.0, 1e4])
def test_secure_sums_keep_every_digit_whatever_the_features_size(scale: float) -> None:
    scaled = [
        tuple(
            SlideArray((slide.read() * np.float32(scale)).astype(np.float32)) for slide in own
        )
        for own in (COHORT.bags.slides if COHORT.bags else ())
    ]
    cohort = Cohort(COHORT.covariates, COHORT.time, COHORT.event, bags=Bags(tuple(scaled), 48))
    plain = InProcess.from_cohorts(
        {f"c{k}": cohort.take(np.arange(30) % 4 == k) for k in range(4)}
    )
    masked = Masked.around(plain).ask(ASKED)
    expected = plain.ask(ASKED)
    assert (masked.patients, masked.tiles) == (expected.patients, expected.tiles)
    np.testing.assert_allclose(masked.upper, expected.upper, rtol=1e-14)


@given(center=st.lists(st.integers(0, 4), min_size=30, max_size=30))
@settings(max_examples=10)
def test_any_split_over_centers_gives_the_pooled_counts(center: list[int]) -> None:
    found = InProcess.from_cohorts(parts(center)).ask(TileCounts())
    assert (found.patients, found.tiles) == (POOLED.patients, POOLED.tiles)


def test_counts_of_those_without_slides_are_none_and_masks_change_nothing() -> None:
    table = Cohort(np.empty((2, 0)), np.ones(2), np.ones(2, dtype=np.bool_))
    assert TileCounts().answer(table) == PatientsAndTiles(0, 0)
    masked = Masked.around(InProcess.from_cohorts(parts([k % 4 for k in range(30)])))
    assert masked.ask(TileCounts()) == PatientsAndTiles(POOLED.patients, POOLED.tiles)


def test_features_that_are_no_numbers_are_told() -> None:
    tiles = np.ones((3, 48), dtype=np.float32)
    tiles[1, 5] = np.nan
    bags = Bags(((SlideArray(tiles),),), 48)
    with pytest.raises(CohortError, match="missing or not finite"):
        ASKED.answer(
            Cohort(np.empty((1, 0)), np.ones(1), np.ones(1, dtype=np.bool_), bags=bags)
        )


def test_it_travels_as_it_is() -> None:
    tree = from_bytes(to_bytes(encode_reply(ASKED, POOLED)))
    found = decode_reply(ASKED, tree, 0)
    assert (found.patients, found.tiles) == (POOLED.patients, POOLED.tiles)
    np.testing.assert_array_equal(found.upper, POOLED.upper)


@pytest.mark.parametrize(
    "wrong",
    [
        TileMomentSums(30, 900, POOLED.upper[:-1]),
        TileMomentSums(30, 29, POOLED.upper),
        TileMomentSums(-1, 900, POOLED.upper),
        TileMomentSums(30, 10**14, POOLED.upper),
        TileMomentSums(30, 900, POOLED.upper * np.nan),
    ],
)
def test_replies_that_cannot_be_are_not_sent(wrong: TileMomentSums) -> None:
    with pytest.raises(MessageError):
        encode_reply(ASKED, wrong)


def test_an_empty_center_adds_nothing() -> None:
    nobody = COHORT.take(np.zeros(30, dtype=np.bool_))
    without_bags = Cohort(np.empty((0, 0)), np.empty(0), np.empty(0, dtype=np.bool_))
    for cohort in (nobody, without_bags):
        reply = ASKED.answer(cohort)
        assert (reply.patients, reply.tiles) == (0, 0)
        assert not reply.upper.any()


def test_patients_without_slides_or_with_other_features_are_told() -> None:
    with pytest.raises(CohortError, match="no slides"):
        ASKED.answer(Cohort(np.empty((1, 0)), np.ones(1), np.ones(1, dtype=np.bool_)))
    with pytest.raises(CohortError, match="48 features here, and are asked about as if"):
        TileMoments(64).answer(COHORT)
