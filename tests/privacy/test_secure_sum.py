"""The sum comes out exactly, whoever drops and whenever; too few, and nothing comes out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedcox.errors import SecureSumError
from tests.privacy.secure_sum_examples import Hospitals, plain_sum, random_vectors

SET_UP = ("keys", "shares")


def enough(number: int) -> int:
    return max(3, number // 2 + 1)


@settings(max_examples=40)
@given(data=st.data(), number=st.integers(min_value=3, max_value=12))
def test_the_sum_over_the_centers_that_answered_is_exact(data: Any, number: int) -> None:
    """Drops before the vector, before the release and before the recovery, in two rounds."""
    hospitals = Hospitals(number).ready()
    left = set(hospitals.names)
    for round_number in (1, 2):
        vectors = random_vectors(hospitals.names, data.draw(st.integers(0, 40)), round_number)
        some = st.sets(st.sampled_from(sorted(left)), max_size=number // 3)
        before, later = data.draw(some), data.draw(some)
        after = data.draw(some) - before
        sent = left - before
        # Where some drop before and some after, the round is repeated with the others.
        counted = sent - after if before and after else sent
        if not before and after:
            remaining = sent - after - later
            possible = len(remaining) >= number // 2 + 1
        else:
            later = set()
            possible = len(counted) >= enough(number)
        hospitals.transport.dropping = {"release": after, "recovery": later}
        if not possible or len(sent) < enough(number):
            with pytest.raises(SecureSumError, match="Too few centers"):
                hospitals.sum(vectors, without=before)
            return
        result = hospitals.sum(vectors, without=before)
        assert result.survivors == tuple(sorted(counted))
        assert result.dropped == tuple(sorted(left - counted))
        np.testing.assert_array_equal(result.total, plain_sum(vectors, result.survivors))
        left = set(hospitals.coordinator.centers)
        assert left == counted - after - later


@settings(max_examples=25)
@given(data=st.data(), number=st.integers(min_value=3, max_value=12))
def test_too_many_drops_give_no_sum(data: Any, number: int) -> None:
    hospitals = Hospitals(number).ready()
    most = enough(number) - 1
    answering = data.draw(st.sets(st.sampled_from(hospitals.names), max_size=most))
    vectors = random_vectors(hospitals.names, 5)
    with pytest.raises(SecureSumError, match="Too few centers"):
        hospitals.sum(vectors, without=set(hospitals.names) - answering)
    assert "release" not in {step for step, _ in hospitals.transport.heard}
    # Nothing was opened, so the same centers can be asked again.
    again = hospitals.sum(vectors)
    np.testing.assert_array_equal(again.total, plain_sum(vectors, hospitals.names))


def test_shares_come_with_the_first_question_that_enough_answer() -> None:
    hospitals = Hospitals(5)
    hospitals.coordinator.set_up()
    vectors = random_vectors(hospitals.names, 5)
    with pytest.raises(SecureSumError, match="Too few centers"):
        hospitals.sum(vectors, without=hospitals.names[:3])
    again = hospitals.sum(vectors)
    np.testing.assert_array_equal(again.total, plain_sum(vectors, hospitals.names))
    assert not hospitals.coordinator._shares


@pytest.mark.parametrize("number", [3, 4, 5, 8])
@pytest.mark.parametrize("step", SET_UP)
def test_a_center_that_drops_during_the_set_up_is_left_out(number: int, step: str) -> None:
    hospitals = Hospitals(number)
    gone = hospitals.names[1]
    hospitals.transport.dropping = {step: {gone}}
    if number == 3:
        with pytest.raises(SecureSumError, match=r"at least 3 centers|Too few centers"):
            hospitals.ready()
        return
    hospitals.ready()
    assert hospitals.coordinator.centers == tuple(n for n in hospitals.names if n != gone)
    vectors = random_vectors(hospitals.names, 7)
    result = hospitals.sum(vectors)
    assert gone not in result.survivors
    np.testing.assert_array_equal(result.total, plain_sum(vectors, result.survivors))


def test_with_three_centers_none_can_be_missing_but_one_may_vanish_after_it_sent() -> None:
    hospitals = Hospitals(3).ready()
    vectors = random_vectors(hospitals.names, 7)
    with pytest.raises(SecureSumError, match="2 of 3 are there, and 3 are needed"):
        hospitals.sum(vectors, without=hospitals.names[:1])
    hospitals.transport.dropping = {"release": {hospitals.names[2]}}
    result = hospitals.sum(vectors)
    assert result.survivors == hospitals.names
    np.testing.assert_array_equal(result.total, plain_sum(vectors, hospitals.names))
    with pytest.raises(SecureSumError, match="Too few centers"):
        hospitals.sum(vectors)


def test_two_centers_are_refused() -> None:
    with pytest.raises(SecureSumError, match="at least 3 centers; there are 2"):
        Hospitals(2).ready()


def test_a_smallest_sum_below_three_is_refused() -> None:
    with pytest.raises(SecureSumError, match="3 centers or more, not 2"):
        Hospitals(4, smallest_sum=2)


def test_a_larger_smallest_sum_holds() -> None:
    hospitals = Hospitals(6, smallest_sum=6).ready()
    with pytest.raises(SecureSumError, match="6 are needed"):
        hospitals.sum(random_vectors(hospitals.names, 3), without=hospitals.names[:1])


def test_a_center_that_dropped_comes_back_with_the_next_set_up() -> None:
    hospitals = Hospitals(5).ready()
    vectors = random_vectors(hospitals.names, 4)
    assert len(hospitals.sum(vectors, without=hospitals.names[:2]).survivors) == 3
    assert len(hospitals.sum(vectors).survivors) == 3
    hospitals.ready()
    assert hospitals.sum(vectors).survivors == hospitals.names


def test_drops_before_and_after_sending_in_one_round_ask_the_others_again() -> None:
    hospitals = Hospitals(8).ready()
    vectors = random_vectors(hospitals.names, 9)
    hospitals.transport.dropping = {"release": {hospitals.names[1]}}
    result = hospitals.sum(vectors, without={hospitals.names[0]})
    assert result.survivors == hospitals.names[2:]
    assert result.dropped == hospitals.names[:2]
    np.testing.assert_array_equal(result.total, plain_sum(vectors, result.survivors))
    assert {number for number, _ in hospitals.masked} == {1, 2}


def test_no_set_up_no_sum() -> None:
    hospitals = Hospitals(4)
    with pytest.raises(SecureSumError, match="set-up"):
        hospitals.sum(random_vectors(hospitals.names, 3))


def test_vectors_of_different_lengths_are_not_added() -> None:
    hospitals = Hospitals(4).ready()
    vectors = random_vectors(hospitals.names, 3)
    vectors[hospitals.names[2]] = np.zeros(4, dtype=np.uint64)
    with pytest.raises(SecureSumError, match="different lengths"):
        hospitals.sum(vectors)


def test_only_integers_mod_2_64_are_masked() -> None:
    hospitals = Hospitals(3).ready()
    party = hospitals.parties[hospitals.names[0]]
    for wrong in (np.zeros(3), np.zeros((2, 2), dtype=np.uint64)):
        with pytest.raises(TypeError, match="uint64"):
            party.masked(1, b"", wrong, hospitals.names)  # type: ignore[arg-type]


@pytest.mark.parametrize(("number", "numbers"), [(5, 300), (20, 3000)])
def test_a_round_without_drops_takes_one_vector_and_one_short_release(
    number: int, numbers: int
) -> None:
    hospitals = Hospitals(number).ready()
    hospitals.transport.heard.clear()
    hospitals.sum(random_vectors(hospitals.names, numbers))
    assert hospitals.transport.heard == [("release", name) for name in hospitals.names]
    for name in hospitals.names:
        sent = hospitals.masked[1, name], hospitals.transport.replies["release", name]
        assert sum(map(len, sent)) <= 1.1 * 8 * numbers


def test_secrets_do_not_get_into_a_log() -> None:
    hospitals = Hospitals(3).ready()
    party = hospitals.parties[hospitals.names[0]]
    ring = party._ring
    assert ring is not None
    told = repr(party) + repr(ring) + repr(ring.secrets)
    for secret in (ring.secrets.master, *ring.pair_keys.values()):
        assert repr(secret)[2:10] not in told
