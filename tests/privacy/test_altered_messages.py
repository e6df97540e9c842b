"""What the line alters or repeats, and what a broken center sends, is noticed and not used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from fedcox.errors import SecureSumError
from fedcox.privacy.messages import Announcement, ByName
from fedcox.privacy.secure_sum import SecureSum
from fedcox.privacy.secure_sum_center import SecureSumCenter
from fedcox.privacy.session import Session
from tests.privacy.secure_sum_examples import (
    QUESTION,
    SIGNATURE,
    STUDY,
    Hospitals,
    all_masked,
    flipped,
    plain_sum,
    random_vectors,
)


@pytest.mark.parametrize("step", ["keys", "shares", "release", "recovery"])
@pytest.mark.parametrize("place", [0, 63, -1], ids=["signature", "signature's end", "content"])
def test_an_altered_reply_is_noticed_and_its_center_named(step: str, place: int) -> None:
    hospitals = Hospitals(5)
    if step != "keys":
        hospitals.transport.dropping = {"release": {hospitals.names[4]}}
    name = hospitals.names[1]
    hospitals.transport.altered_reply[step, name] = lambda message: flipped(message, place)
    with pytest.raises(SecureSumError, match=f"center '{name}' is not validly signed"):
        hospitals.ready().sum(random_vectors(hospitals.names, 3))


class Sorting:
    """Takes a center whose reply cannot be used for one that dropped."""

    def __init__(self, hospitals: Hospitals) -> None:
        self._inner, self.lost = hospitals.transport, dict[str, str]()
        self.coordinator = SecureSum(STUDY, hospitals.known, self.exchange)

    def exchange(self, step: str, messages: Mapping[str, bytes]) -> dict[str, bytes]:
        there = {name: text for name, text in messages.items() if name not in self.lost}
        return self.usable(self._inner.exchange(step, there))

    def usable(self, replies: dict[str, bytes]) -> dict[str, bytes]:
        for name, reply in replies.items():
            try:
                self.coordinator.check(name, reply)
            except SecureSumError as error:
                self.lost[name] = error.subject
        return {name: reply for name, reply in replies.items() if name not in self.lost}


@pytest.mark.parametrize("step", ["keys", "shares", "vector", "release"])
def test_a_transport_can_tell_the_center_of_an_altered_reply_from_the_others(step: str) -> None:
    hospitals = Hospitals(4)
    name = hospitals.names[1]
    hospitals.transport.altered_reply[step, name] = flipped
    sorting, vectors = Sorting(hospitals), random_vectors(hospitals.names, 3)

    def collect(number: int, shares: Mapping[str, bytes]) -> dict[str, bytes]:
        replies = {}
        for each, own in shares.items():
            party = hospitals.parties[each]
            hospitals.deliver(each, own)
            replies[each] = party.masked(number, QUESTION, vectors[each], tuple(shares))
        if step == "vector":
            replies[name] = flipped(replies[name])
        return sorting.usable(replies)

    sorting.coordinator.set_up()
    found = sorting.coordinator.sum(QUESTION, collect)
    left = tuple(each for each in hospitals.names if each != name)
    assert sorting.lost == {
        name: f"The {step} message of center '{name}' is not validly signed."
    }
    assert sorting.coordinator.centers == left
    assert found.survivors == (hospitals.names if step == "release" else left)
    np.testing.assert_array_equal(found.total, plain_sum(vectors, found.survivors))


def test_what_nobody_asked_for_cannot_be_used() -> None:
    hospitals = Hospitals(3)
    with pytest.raises(SecureSumError, match="was asked nothing"):
        hospitals.coordinator.check(hospitals.names[0], b"")


@pytest.mark.parametrize("length", [0, 40, 64, 67, 68, 70])
def test_a_message_that_was_cut_is_noticed(length: int) -> None:
    for step in ("keys", "shares", "release"):
        hospitals = Hospitals(3)
        name = hospitals.names[1]
        hospitals.transport.altered_reply[step, name] = lambda message: message[:length]
        with pytest.raises(SecureSumError, match=f"center '{name}' is not validly signed"):
            hospitals.ready().sum(random_vectors(hospitals.names, 3))
    hospitals = Hospitals(3).ready()

    def collect(number: int, centers: Mapping[str, bytes]) -> dict[str, bytes]:
        all_masked(hospitals, random_vectors(hospitals.names, 3), number)
        return {each: hospitals.masked[number, each][:length] for each in centers}

    with pytest.raises(SecureSumError, match="is not validly signed"):
        hospitals.coordinator.sum(QUESTION, collect)


@pytest.mark.parametrize("place", [0, SIGNATURE, -1], ids=["signature", "first", "last"])
def test_an_altered_vector_is_noticed(place: int) -> None:
    hospitals = Hospitals(3).ready()
    vectors = random_vectors(hospitals.names, 3)

    def collect(number: int, centers: Mapping[str, bytes]) -> dict[str, bytes]:
        all_masked(hospitals, vectors, number)
        replies = {name: hospitals.masked[number, name] for name in centers}
        altered = hospitals.names[1]
        return replies | {altered: flipped(replies[altered], place)}

    with pytest.raises(SecureSumError, match=f"'{hospitals.names[1]}' is not validly signed"):
        hospitals.coordinator.sum(QUESTION, collect)


def test_the_vector_of_an_older_round_is_refused() -> None:
    hospitals = Hospitals(4).ready()
    vectors = random_vectors(hospitals.names, 3)
    hospitals.sum(vectors)
    name = hospitals.names[3]

    def collect(number: int, centers: Mapping[str, bytes]) -> dict[str, bytes]:
        all_masked(hospitals, vectors, number)
        replies = {each: hospitals.masked[number, each] for each in centers}
        return replies | {name: hospitals.masked[1, name]}

    with pytest.raises(SecureSumError, match=f"'{name}' is not validly signed"):
        hospitals.coordinator.sum(QUESTION, collect)


def test_another_centers_vector_is_refused() -> None:
    hospitals = Hospitals(4).ready()
    vectors = random_vectors(hospitals.names, 3)

    def collect(number: int, centers: Mapping[str, bytes]) -> dict[str, bytes]:
        first, names = hospitals.names[0], tuple(centers)
        reply = hospitals.parties[first].masked(number, QUESTION, vectors[first], names)
        return dict.fromkeys(centers, reply)

    with pytest.raises(SecureSumError, match=f"'{hospitals.names[1]}' is not validly signed"):
        hospitals.coordinator.sum(QUESTION, collect)


def test_an_altered_share_is_noticed_by_its_receiver() -> None:
    hospitals = Hospitals(4)
    sender, receiver = hospitals.names[0], hospitals.names[2]

    def alter(message: bytes) -> bytes:
        parts = dict(ByName.from_bytes(message).parts)
        parts[sender] = flipped(parts[sender])
        return ByName(parts).to_bytes()

    hospitals.transport.altered_message["vector", receiver] = alter
    with pytest.raises(
        SecureSumError, match=f"'{receiver}' cannot use the share of center '{sender}'"
    ):
        hospitals.ready()


def test_the_share_of_another_center_is_noticed() -> None:
    hospitals = Hospitals(4)
    first, second, receiver = hospitals.names[:3]

    def swap(message: bytes) -> bytes:
        parts = dict(ByName.from_bytes(message).parts)
        parts[first], parts[second] = parts[second], parts[first]
        return ByName(parts).to_bytes()

    hospitals.transport.altered_message["vector", receiver] = swap
    with pytest.raises(SecureSumError, match=f"'{receiver}' cannot use the share of center"):
        hospitals.ready()


def test_a_share_meant_for_another_center_is_noticed() -> None:
    hospitals = Hospitals(4)
    sender, receiver, meant = hospitals.names[:3]

    def redirect(message: bytes) -> bytes:
        parts = dict(ByName.from_bytes(message).parts)
        sealed = ByName.from_bytes(hospitals.transport.replies["shares", sender][SIGNATURE:])
        return ByName(parts | {sender: sealed.parts[meant]}).to_bytes()

    hospitals.transport.altered_message["vector", receiver] = redirect
    with pytest.raises(SecureSumError, match=f"'{receiver}' cannot use the share of center"):
        hospitals.ready()


def test_a_missing_share_is_noticed() -> None:
    hospitals = Hospitals(4)

    def leave_out(message: bytes) -> bytes:
        parts = dict(ByName.from_bytes(message).parts)
        parts.popitem()
        return ByName(parts).to_bytes()

    hospitals.transport.altered_message["vector", hospitals.names[1]] = leave_out
    with pytest.raises(SecureSumError, match="one share from every other center"):
        hospitals.ready()


def test_keys_of_an_earlier_set_up_cannot_be_shown_again() -> None:
    """Validly signed, but not in use any more: no share comes that was made under them."""
    hospitals = Hospitals(4).ready()
    victim, replayed = hospitals.names[:2]
    old = hospitals.transport.replies["keys", replayed]
    announced = {name: hospitals.parties[name].handle("keys", b"") for name in hospitals.names}
    shown = dict.fromkeys(hospitals.names, announced)
    shown[victim] = announced | {replayed: old}
    boxes = {}
    for name in hospitals.names:
        reply = hospitals.parties[name].handle("shares", ByName(shown[name]).to_bytes())
        boxes[name] = ByName.from_bytes(reply[SIGNATURE:]).parts
    delivered = {name: boxes[name][victim] for name in hospitals.names if name != victim}
    with pytest.raises(SecureSumError, match=f"'{victim}' cannot use the share of center"):
        hospitals.parties[victim].accept(ByName(delivered).to_bytes())


def test_a_stranger_cannot_join() -> None:
    hospitals, others = Hospitals(4), Hospitals(5)
    for name in hospitals.names:
        hospitals.parties[name].handle("keys", b"")
    announced = {name: others.parties[name].handle("keys", b"") for name in others.names}
    party = hospitals.parties[hospitals.names[0]]
    with pytest.raises(SecureSumError, match=f"Nothing is known of {others.names[4]}"):
        party.handle("shares", ByName(announced).to_bytes())
    del announced[others.names[4]]
    with pytest.raises(SecureSumError, match="not validly signed"):
        party.handle("shares", ByName(announced).to_bytes())


def test_a_center_shares_its_secrets_once_and_only_under_its_own_keys() -> None:
    hospitals = Hospitals(3)
    announced = {name: hospitals.parties[name].handle("keys", b"") for name in hospitals.names}
    party = hospitals.parties[hospitals.names[0]]
    party.handle("shares", ByName(announced).to_bytes())
    with pytest.raises(SecureSumError, match="shares its secrets once"):
        party.handle("shares", ByName(announced).to_bytes())
    party.handle("keys", b"")
    with pytest.raises(SecureSumError, match="not those it announced"):
        party.handle("shares", ByName(announced).to_bytes())
    with pytest.raises(SecureSumError, match="expects no shares"):
        party.accept(b"")


def test_a_wrong_share_from_a_center_is_noticed() -> None:
    hospitals = Hospitals(5).ready()
    hospitals.transport.dropping = {"release": {hospitals.names[4]}}
    party = hospitals.parties[hospitals.names[0]]
    party._shares[hospitals.names[4]] = flipped(party._shares[hospitals.names[4]])
    with pytest.raises(SecureSumError, match=r"do not give its secret|do not belong together"):
        hospitals.sum(random_vectors(hospitals.names, 3))


@pytest.mark.parametrize("dropping", [0, 1])
def test_a_mask_that_does_not_vanish_is_noticed(dropping: int) -> None:
    hospitals = Hospitals(5).ready()
    first, second, *others = hospitals.names
    ring = hospitals.parties[first]._ring
    assert ring is not None
    object.__setattr__(ring, "pair_keys", {**ring.pair_keys, second: bytes(32)})
    with pytest.raises(SecureSumError, match=r"do not vanish.*No part of the sum is used"):
        hospitals.sum(random_vectors(hospitals.names, 3), without=others[:dropping])


def test_two_centers_with_one_identity_are_refused() -> None:
    hospitals = Hospitals(3)
    first, second, third = hospitals.names
    known = hospitals.known | {second: hospitals.known[third]}
    with pytest.raises(SecureSumError, match=f"{second} and {third} have the same identity"):
        SecureSumCenter(first, "lung", hospitals.identities[first], known)
    with pytest.raises(SecureSumError, match="the same identity"):
        SecureSum("lung", known, hospitals.transport.exchange)


def test_centers_that_saw_different_keys_are_in_different_sessions() -> None:
    hospitals = Hospitals(3)
    first = hospitals.names[0]
    announced = {
        name: Announcement(*(bytes([place, part]) * 16 for part in range(3)))
        for place, name in enumerate(hospitals.names)
    }
    session = Session("lung", hospitals.known, announced)
    others = [
        replace(session, study="colon"),
        replace(session, identities=Hospitals(3).known),
    ]
    for part in ("pair_key", "share_key", "master_digest"):
        altered = replace(announced[first], **{part: b"\xff" * 32})
        others.append(replace(session, announcements={**announced, first: altered}))
    digests = {other.digest for other in others}
    assert session.digest not in digests
    assert len(digests) == len(others)


def test_a_center_that_is_not_who_it_says_is_refused_at_once() -> None:
    hospitals = Hospitals(3)
    name, other = hospitals.names[:2]
    with pytest.raises(SecureSumError, match="not known by the identity"):
        SecureSumCenter(name, "lung", hospitals.identities[other], hospitals.known)
