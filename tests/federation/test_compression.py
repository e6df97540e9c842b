"""Codecs: how near they come back, in how many bytes, and what error feedback makes up for."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedcox.errors import InputError, RefusedError
from fedcox.federation.compression import (
    AbstractCodec,
    EightBit,
    ErrorFeedback,
    Float32,
    RandomPlaces,
    Sign,
    TopK,
    entries_kept,
)
from fedcox.survival.cohort import FloatArray
from tests.problems import simulated

CODECS: dict[str, AbstractCodec] = {
    "float32": Float32(),
    "8-bit": EightBit(),
    "sign": Sign(),
    "top tenth": TopK(0.1),
    "top half": TopK(0.5),
    "all of the top": TopK(1.0),
}

finite = st.floats(-1e30, 1e30, allow_subnormal=False)
vectors = arrays(np.float64, st.integers(1, 70), elements=finite)
codecs = st.sampled_from(sorted(CODECS))
shares = st.floats(1e-3, 1.0)


def back(codec: AbstractCodec, vector: FloatArray) -> FloatArray:
    return codec.decode(codec.encode(vector), vector.size)


@given(vector=vectors)
def test_single_precision_is_ieee_754s(vector: FloatArray) -> None:
    np.testing.assert_array_equal(back(Float32(), vector), np.float32(vector))


@given(vector=vectors)
def test_eight_bits_are_half_a_level_away(vector: FloatArray) -> None:
    largest = float(np.abs(vector).max())
    error = np.abs(back(EightBit(), vector) - vector)
    # Half a level, and what single precision loses of the scale.
    assert (error <= largest * (0.5 / 127 + 1e-6) + 1e-44).all()


@given(vector=vectors)
def test_signs_come_back_at_the_mean_size(vector: FloatArray) -> None:
    found = back(Sign(), vector)
    mean = float(np.float32(np.abs(vector).mean()))
    np.testing.assert_array_equal(found, np.where(vector >= 0.0, mean, -mean))


@given(vector=vectors, keep=shares)
def test_the_largest_come_back_and_no_smaller_one(vector: FloatArray, keep: float) -> None:
    found = back(TopK(keep), vector)
    sent = found != 0.0
    np.testing.assert_array_equal(found[sent], np.float32(vector[sent]))
    left, kept = np.sort(np.abs(vector[~sent])), entries_kept(keep, vector.size)
    assert np.count_nonzero(sent) <= kept
    smallest = np.sort(np.abs(vector))[vector.size - kept]
    # An entry that single precision takes for zero may have been sent as well.
    assert left.size == 0 or left[-1] <= max(smallest, 1e-37)


@given(codec=codecs, vector=vectors)
def test_something_always_arrives(codec: str, vector: FloatArray) -> None:
    """What error feedback needs to make up for all that is lost: a contraction."""
    vector = vector / max(1e-30, float(np.abs(vector).max()))
    missing = float(np.square(back(CODECS[codec], vector) - vector).sum())
    whole = float(np.square(vector).sum())
    assert missing <= (1.0 - 0.9 / vector.size) * whole + 1e-12


@pytest.mark.parametrize("size", [1, 7, 8, 9, 50, 230])
def test_as_many_bytes_as_said(size: int) -> None:
    vector = np.linspace(-1.0, 2.0, size)
    tenth = max(1, size // 10)
    lengths = {
        "float32": 4 * size,
        "8-bit": 4 + size,
        "sign": 4 + math.ceil(size / 8),
        "top tenth": 6 * tenth,
    }
    for name, length in lengths.items():
        assert len(CODECS[name].encode(vector)) == length


def test_places_beyond_two_bytes_take_four() -> None:
    vector = np.zeros(70_000)
    vector[[3, 69_999]] = 1.0, -2.0
    codec = TopK(2 / 70_000)
    assert len(codec.encode(vector)) == 2 * 8
    np.testing.assert_array_equal(back(codec, vector), vector)


@pytest.mark.parametrize("name", CODECS)
@pytest.mark.parametrize("size", [1, 30])
def test_nothing_stays_nothing(name: str, size: int) -> None:
    np.testing.assert_array_equal(back(CODECS[name], np.zeros(size)), np.zeros(size))


@pytest.mark.parametrize("name", CODECS)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e300])
def test_a_search_that_ran_away_does_not_look_like_one_that_did_not(
    name: str, value: float
) -> None:
    vector = np.linspace(-1.0, 1.0, 20)
    vector[4] = value
    assert not np.isfinite(back(CODECS[name], vector)).all()


@pytest.mark.parametrize("name", CODECS)
@pytest.mark.parametrize("change", [lambda p: p[:-1], lambda p: p + b"\0", lambda p: b""])
def test_bytes_too_few_or_too_many_are_refused(name: str, change: object) -> None:
    payload = CODECS[name].encode(np.linspace(-1.0, 1.0, 20))
    assert callable(change)
    with pytest.raises(InputError, match="bytes"):
        CODECS[name].decode(change(payload), 20)


@pytest.mark.parametrize("places", [(3, 20), (5, 5), (7, 2)])
def test_places_out_of_order_or_range_are_refused(places: tuple[int, int]) -> None:
    payload = np.array(places, "<u2").tobytes() + np.ones(2, "<f4").tobytes()
    with pytest.raises(InputError, match="places"):
        TopK(0.1).decode(payload, 20)


@given(keep=shares, size=st.integers(1, 300))
def test_a_share_is_kept_and_at_least_one(keep: float, size: int) -> None:
    kept = entries_kept(keep, size)
    assert 1 <= kept <= size
    assert kept == 1 or kept <= keep * size * (1 + 1e-9)
    assert kept == size or kept + 1 > keep * size


@pytest.mark.parametrize("keep", [0.0, -0.1, 1.01, np.nan])
def test_a_share_that_is_none_is_refused(keep: float) -> None:
    for made in (lambda: TopK(keep), lambda: RandomPlaces(keep, 0)):
        with pytest.raises(InputError, match="above 0 and at most 1"):
            made()


def test_a_share_is_not_lost_to_rounding() -> None:
    assert entries_kept(0.29, 100) == 29
    assert entries_kept(0.1, 230) == 23


# Random places


@given(keep=shares, size=st.integers(1, 120), seed=st.integers(0, 2**40))
def test_every_entry_travels_in_each_turn(keep: float, size: int, seed: int) -> None:
    places, kept = RandomPlaces(keep, seed), entries_kept(keep, size)
    turn = math.ceil(size / kept)
    for first in (1, 1 + 3 * turn):
        drawn = [places.at(step, size) for step in range(first, first + turn)]
        assert all((np.diff(part) > 0).all() and part.size == kept for part in drawn)
        times = np.bincount(np.concatenate(drawn), minlength=size)
        assert times.size == size
        assert times.min() == 1
        assert times.max() <= 2
        assert times.sum() == turn * kept


def test_places_depend_on_seed_and_step_alone() -> None:
    first = RandomPlaces(0.1, 7).at(4, 100)
    np.testing.assert_array_equal(first, RandomPlaces(0.1, 7).at(4, 100))
    assert (first != RandomPlaces(0.1, 8).at(4, 100)).any()
    assert (first != RandomPlaces(0.1, 7).at(5, 100)).any()
    assert (first != RandomPlaces(0.1, 7).at(14, 100)).any()  # the same part of the next turn


# Error feedback


@given(
    codec=codecs,
    path=arrays(np.float64, (12, 9), elements=st.floats(-1e3, 1e3, allow_subnormal=False)),
)
def test_nothing_is_lost_for_good(codec: str, path: FloatArray) -> None:
    """All that was sent and what is still missing make up all that there was."""
    cohort, feedback = simulated(3), ErrorFeedback()
    sent = np.zeros(9)
    for step, vector in enumerate(path, start=1):
        before = feedback.before(cohort, step, 9)
        arrived = back(CODECS[codec], vector + before)
        feedback.remember(cohort, step, before, vector + before - arrived)
        sent += arrived
    missing = feedback.before(cohort, len(path) + 1, 9)
    scale = 1.0 + np.abs(path).sum()
    np.testing.assert_allclose(sent + missing, path.sum(axis=0), atol=1e-12 * scale)


def test_a_step_asked_again_finds_what_it_found_before() -> None:
    cohort, feedback = simulated(3), ErrorFeedback()
    feedback.remember(cohort, 1, np.zeros(2), np.array([1.0, -2.0]))
    np.testing.assert_array_equal(feedback.before(cohort, 2, 2), [1.0, -2.0])
    feedback.remember(cohort, 2, np.array([1.0, -2.0]), np.array([0.5, 0.5]))
    np.testing.assert_array_equal(feedback.before(cohort, 2, 2), [1.0, -2.0])
    np.testing.assert_array_equal(feedback.before(cohort, 3, 2), [0.5, 0.5])
    with pytest.raises(RefusedError, match="step 1 cannot be answered again"):
        feedback.before(cohort, 1, 2)


def test_every_center_remembers_its_own() -> None:
    ours, theirs, feedback = simulated(3), simulated(3), ErrorFeedback()
    feedback.remember(ours, 1, np.zeros(2), np.ones(2))
    np.testing.assert_array_equal(feedback.before(theirs, 2, 2), np.zeros(2))
