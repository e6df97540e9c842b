"""A finished sum that every center can add up again, and nobody can alter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedcox.errors import SecureSumError
from fedcox.privacy.transcript import Transcript
from tests.privacy.parties import (
    QUESTION,
    SIGNATURE,
    Hospitals,
    flipped,
    plain_sum,
    random_vectors,
)


def summed(hospitals: Hospitals, **asked: Any) -> Transcript:
    transcript = hospitals.sum(random_vectors(hospitals.names, 4), **asked).transcript
    assert transcript is not None
    return transcript


@pytest.mark.parametrize("number", [3, 4, 5, 8])
@pytest.mark.parametrize("dropping", [0, 1, 2])
def test_every_center_finds_the_coordinators_sum(number: int, dropping: int) -> None:
    dropping = min(dropping, max(number - max(3, number // 2 + 1), 0))
    hospitals = Hospitals(number).ready()
    vectors = random_vectors(hospitals.names, 6, seed=number)
    result = hospitals.sum(vectors, without=hospitals.names[1 : 1 + dropping])
    assert result.transcript is not None
    assert result.transcript.survivors == result.survivors
    for name in result.survivors:
        total = hospitals.parties[name].checked_total(
            result.transcript.to_bytes(), QUESTION, result.survivors
        )
        np.testing.assert_array_equal(total, plain_sum(vectors, result.survivors))


def test_it_can_be_checked_after_later_rounds_and_changes_nothing() -> None:
    hospitals = Hospitals(4).ready()
    vectors = random_vectors(hospitals.names, 4)
    first = summed(hospitals)
    party = hospitals.parties[hospitals.names[0]]
    for _ in range(2):
        total = party.checked_total(first.to_bytes(), QUESTION, hospitals.names)
        np.testing.assert_array_equal(total, plain_sum(vectors, hospitals.names))
        later = hospitals.sum(vectors)  # the round that is next is still the next
        np.testing.assert_array_equal(later.total, total)


def test_a_sum_with_a_recovery_has_none() -> None:
    hospitals = Hospitals(5).ready()
    hospitals.transport.dropping = {"release": {hospitals.names[4]}}
    vectors = random_vectors(hospitals.names, 3)
    result = hospitals.sum(vectors)
    assert result.transcript is None
    np.testing.assert_array_equal(result.total, plain_sum(vectors, hospitals.names))


def other_vector(transcript: Transcript) -> Transcript:
    first, second = transcript.survivors[:2]
    swapped = {first: transcript.vectors[second], second: transcript.vectors[first]}
    return replace(transcript, vectors={**transcript.vectors, **swapped})


def without_first(transcript: Transcript) -> Transcript:
    first = transcript.survivors[0]
    return replace(
        transcript,
        vectors={name: part for name, part in transcript.vectors.items() if name != first},
        releases={name: part for name, part in transcript.releases.items() if name != first},
    )


def altered(part: str, place: int) -> Callable[[Transcript], Transcript]:
    def alter(transcript: Transcript) -> Transcript:
        parts = dict(getattr(transcript, part))
        parts[transcript.survivors[1]] = flipped(parts[transcript.survivors[1]], place)
        change: dict[str, Any] = {part: parts}
        return replace(transcript, **change)

    return alter


ALTERED: dict[str, tuple[Callable[[Transcript], Transcript], str]] = {
    "a vector": (altered("vectors", -1), "not validly signed"),
    "a vector's signature": (altered("vectors", 0), "not validly signed"),
    "a vector's round": (altered("vectors", SIGNATURE), "of round .*, not of"),
    "a release": (altered("releases", -1), "not validly signed"),
    "a release's signature": (altered("releases", 0), "not validly signed"),
    "another center's vector": (other_vector, "not validly signed"),
    "the round": (lambda told: replace(told, round_number=2), "of round 1, not of round 2"),
    "the question": (lambda told: replace(told, question=bytes(32)), "another question"),
    "a center less": (without_first, "over other centers"),
    "a release less": (
        lambda told: replace(told, releases=dict(list(told.releases.items())[1:])),
        "over other centers",
    ),
    "a center that was not asked": (
        lambda told: replace(told, centers=(*told.centers, "hospital 99")),
        "not validly signed",
    ),
    "a center less that was asked": (
        lambda told: replace(told, centers=told.centers[1:]),
        "not validly signed|were not in",
    ),
}


@pytest.mark.parametrize("what", ALTERED)
def test_what_was_altered_is_refused_by_every_center(what: str) -> None:
    hospitals = Hospitals(4).ready()
    alter, reason = ALTERED[what]
    shown = alter(summed(hospitals)).to_bytes()
    for party in hospitals.parties.values():
        with pytest.raises(SecureSumError, match=reason):
            party.checked_total(shown, QUESTION, hospitals.names)


def test_another_session_or_study_is_refused() -> None:
    hospitals = Hospitals(4).ready()
    shown = summed(hospitals).to_bytes()
    party = hospitals.parties[hospitals.names[0]]
    hospitals.ready()  # the same centers with new keys
    with pytest.raises(SecureSumError, match="not validly signed"):
        party.checked_total(shown, QUESTION, hospitals.names)
    others = Hospitals(4).ready()  # of the same names
    with pytest.raises(SecureSumError, match="not validly signed"):
        party.checked_total(summed(others).to_bytes(), QUESTION, hospitals.names)


def test_vectors_and_releases_of_two_rounds_do_not_fit_together() -> None:
    hospitals = Hospitals(4).ready()
    first, second = summed(hospitals), summed(hospitals)
    mixed = replace(second, releases=first.releases)
    with pytest.raises(SecureSumError, match="not validly signed"):
        hospitals.parties[hospitals.names[0]].checked_total(
            mixed.to_bytes(), QUESTION, hospitals.names
        )


def test_a_sum_over_others_is_refused() -> None:
    hospitals = Hospitals(5).ready()
    everyone = summed(hospitals).to_bytes()
    fewer = summed(hospitals, without=hospitals.names[4:]).to_bytes()
    left = hospitals.names[:4]
    party, gone = hospitals.parties[left[0]], hospitals.parties[hospitals.names[4]]
    party.checked_total(fewer, QUESTION, left)
    with pytest.raises(SecureSumError, match="over other centers"):
        party.checked_total(everyone, QUESTION, left)
    with pytest.raises(SecureSumError, match="over other centers"):
        party.checked_total(fewer, QUESTION, hospitals.names)
    with pytest.raises(SecureSumError, match="that it is part of"):
        gone.checked_total(fewer, QUESTION, left)
    with pytest.raises(SecureSumError, match="of this session"):
        party.checked_total(fewer, QUESTION, (*left, "a stranger"))


def test_before_the_set_up_nothing_can_be_checked() -> None:
    shown = summed(Hospitals(3).ready()).to_bytes()
    waiting = Hospitals(3)
    with pytest.raises(SecureSumError, match="set-up is not complete"):
        waiting.parties[waiting.names[0]].checked_total(shown, QUESTION, waiting.names)


_HOSPITALS = Hospitals(3).ready()
_SHOWN = summed(_HOSPITALS).to_bytes()


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_no_bytes_but_the_right_ones_give_a_sum(data: Any) -> None:
    place = data.draw(st.integers(0, len(_SHOWN) - 1))
    cut = data.draw(st.booleans())
    shown = _SHOWN[:place] if cut else flipped(_SHOWN, place)
    party = _HOSPITALS.parties[_HOSPITALS.names[0]]
    with pytest.raises(SecureSumError):
        party.checked_total(shown, QUESTION, _HOSPITALS.names)


def test_it_reads_as_it_was_written() -> None:
    again = Transcript.from_bytes(_SHOWN)
    assert again.to_bytes() == _SHOWN
    assert again.survivors == again.centers == _HOSPITALS.names
