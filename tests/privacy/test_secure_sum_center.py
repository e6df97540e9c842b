"""Does a center refuse what would give a single center away, also after a restart?"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedcox.errors import RefusedError, SecureSumError
from fedcox.privacy.ciphers import xor
from fedcox.privacy.fixed_point import UIntArray
from fedcox.privacy.identity import Identity
from fedcox.privacy.masks import openings, pair_mask_key, released_context, with_masks
from fedcox.privacy.messages import ByName, Release
from fedcox.privacy.secure_sum import SecureSum
from fedcox.privacy.secure_sum_center import SecureSumCenter
from fedcox.privacy.study_memory import StudyMemory
from tests.privacy.secure_sum_examples import (
    QUESTION,
    SIGNATURE,
    STUDY,
    Hospitals,
    all_masked,
    directly,
    hand_out,
    masked_vector,
    plain_sum,
    random_vectors,
    told,
    true_seed,
    without_self_mask,
)
from tests.privacy.test_study_memory import PowerCut, cut_before


def pair_masks_off(hospitals: Hospitals, victim: str, keys: dict[str, bytes]) -> UIntArray:
    """The victim's first message without the pair masks whose keys the others gave."""
    return with_masks(
        masked_vector(hospitals.masked[1, victim]),
        added=[key for other, key in keys.items() if victim > other],
        subtracted=[key for other, key in keys.items() if victim < other],
    )


def given_keys(reply: bytes, survivors: int) -> tuple[bytes, ...]:
    body = reply[SIGNATURE:]
    return Release.from_bytes(body, openings=survivors - 1, pair_mask_keys=1).pair_mask_keys


def test_a_late_vector_stays_closed() -> None:
    """All others release without the victim, whose vector arrives afterwards."""
    hospitals = Hospitals(5).ready()
    vectors = random_vectors(hospitals.names, 50)
    all_masked(hospitals, vectors)
    victim, *others = hospitals.names
    released = {
        name: hospitals.parties[name].handle("release", told(1, others)) for name in others
    }
    keys = {name: given_keys(reply, len(others))[0] for name, reply in released.items()}
    late = pair_masks_off(hospitals, victim, keys)
    assert not np.any(late == vectors[victim])
    with pytest.raises(SecureSumError, match="named among the centers"):
        hospitals.parties[victim].handle("release", told(1, others))
    # Its own seed is all that protects it: with that the vector would lie open.
    opened = without_self_mask(late, true_seed(hospitals.parties[victim]))
    np.testing.assert_array_equal(opened, vectors[victim])


def test_a_coordinator_that_names_different_survivors_cannot_open_the_seed() -> None:
    """The victim is told that all survived, the others that the victim dropped."""
    hospitals = Hospitals(5).ready()
    vectors = random_vectors(hospitals.names, 50)
    all_masked(hospitals, vectors)
    victim, *others = hospitals.names
    own = Release.from_bytes(
        hospitals.parties[victim].handle("release", told(1, hospitals.names))[SIGNATURE:],
        openings=4,
        pair_mask_keys=0,
    )
    seed = true_seed(hospitals.parties[victim])
    given: list[bytes] = []
    for name in others:
        reply = hospitals.parties[name].handle("release", told(1, others))
        given += Release.from_bytes(reply[SIGNATURE:], openings=3, pair_mask_keys=1).openings
        with pytest.raises(SecureSumError, match="another set of centers"):
            hospitals.parties[name].handle("release", told(1, hospitals.names))
    assert own.closed_seed != seed
    for number in range(5):
        for chosen in combinations([*given, *own.openings], number):
            assert xor(own.closed_seed, *chosen) != seed


def test_what_opens_a_seed_for_one_list_of_survivors_does_not_for_another() -> None:
    hospitals = Hospitals(5).ready()
    all_masked(hospitals, random_vectors(hospitals.names, 3))
    victim, *others = hospitals.names

    def release(name: str, survivors: Collection[str]) -> Release:
        reply = hospitals.parties[name].handle("release", told(1, survivors))
        others, dropped = len(survivors) - 1, 5 - len(survivors)
        return Release.from_bytes(reply[SIGNATURE:], openings=others, pair_mask_keys=dropped)

    own = release(victim, hospitals.names)
    # The victim's name is the first, so what opens its seed is each one's first opening.
    last = release(others[3], hospitals.names).openings[0]
    given = [release(name, hospitals.names[:4]).openings[0] for name in others[:3]]
    seed = true_seed(hospitals.parties[victim])
    assert xor(own.closed_seed, *given, last) != seed
    rings = [hospitals.parties[name]._ring for name in others]
    released = released_context(
        getattr(hospitals.parties[victim]._round, "context", b""), hospitals.names
    )
    right = [
        openings(ring.pair_keys[victim], released, ring.name, victim).given
        for ring in rings
        if ring is not None
    ]
    assert xor(own.closed_seed, *right) == seed


def test_what_survivors_give_for_a_dropped_center_opens_no_earlier_round() -> None:
    hospitals = Hospitals(5).ready()
    vectors = random_vectors(hospitals.names, 50)
    victim, *others = hospitals.names
    hospitals.sum(vectors)
    first = {name: hospitals.parties[name]._round for name in hospitals.names}
    seed = true_seed(hospitals.parties[victim])  # which the release of round 1 has opened
    hospitals.sum(vectors, without={victim})
    keys = {
        name: given_keys(hospitals.transport.replies["release", name], len(others))[0]
        for name in others
    }
    attempt = pair_masks_off(hospitals, victim, keys)
    assert not np.any(without_self_mask(attempt, seed) == vectors[victim])
    # With round 1's own keys it would lie open: the attempt is not idle.
    own = hospitals.parties[victim]._ring
    context = first[victim]
    assert own is not None
    assert context is not None
    right = {name: pair_mask_key(own.pair_keys[name], context.context) for name in others}
    attempt = pair_masks_off(hospitals, victim, right)
    np.testing.assert_array_equal(without_self_mask(attempt, seed), vectors[victim])


def test_different_questions_to_different_centers_give_no_sum() -> None:
    hospitals = Hospitals(4).ready()
    vectors = random_vectors(hospitals.names, 50)
    odd = hospitals.names[2]
    with pytest.raises(SecureSumError, match=f"'{odd}' is not validly signed"):
        hospitals.sum(vectors, asked={odd: b"another question".ljust(32)})
    # And to a coordinator that does not care about signatures, the sum is noise.
    sent = {name: masked_vector(hospitals.masked[1, name]) for name in hospitals.names}
    noise = plain_sum(sent, hospitals.names)
    for name in hospitals.names:
        noise = without_self_mask(noise, true_seed(hospitals.parties[name]))
    assert not np.any(noise == plain_sum(vectors, hospitals.names))


def test_a_center_gives_for_another_either_its_pair_masks_or_its_share() -> None:
    hospitals = Hospitals(6).ready()
    victim, *others = hospitals.names
    vectors = random_vectors(hospitals.names, 3)
    party = hospitals.parties[others[0]]
    all_masked(hospitals, vectors)
    # First the pair masks; then the share, in this round and the next.
    party.handle("release", told(1, others))
    for present in (others, others[:4], hospitals.names):
        with pytest.raises(SecureSumError, match="released for all its centers"):
            party.handle("recovery", told(1, present))
    with pytest.raises(SecureSumError, match=f"{victim} cannot take part"):
        party.masked(2, QUESTION, vectors[others[0]], hospitals.names)
    # The other way round.
    party = hospitals.parties[others[1]]
    party.handle("release", told(1, hospitals.names))
    party.handle("recovery", told(1, others))
    with pytest.raises(SecureSumError, match="another set of centers"):
        party.handle("release", told(1, others))
    with pytest.raises(SecureSumError, match=f"{victim} cannot take part"):
        party.masked(2, QUESTION, vectors[others[1]], hospitals.names)


def test_shares_are_not_given_before_the_release_nor_to_too_few_nor_to_more() -> None:
    hospitals = Hospitals(6).ready()
    all_masked(hospitals, random_vectors(hospitals.names, 3))
    first, *others = hospitals.names
    party = hospitals.parties[first]
    with pytest.raises(SecureSumError, match="released for all its centers"):
        party.handle("recovery", told(1, hospitals.names[:5]))
    party.handle("release", told(1, hospitals.names))
    with pytest.raises(SecureSumError, match="3 centers are present, and 4 are needed"):
        party.handle("recovery", told(1, hospitals.names[:3]))
    with pytest.raises(SecureSumError, match="itself among them"):
        party.handle("recovery", told(1, others))
    party.handle("recovery", told(1, hospitals.names[:4]))
    with pytest.raises(SecureSumError, match="itself among them"):
        party.handle("recovery", told(1, hospitals.names[:5]))  # who vanished does not return


def test_a_center_answers_each_round_once_and_only_the_one_under_way() -> None:
    hospitals = Hospitals(3).ready()
    vectors = random_vectors(hospitals.names, 3)
    party = hospitals.parties[hospitals.names[0]]
    vector = vectors[hospitals.names[0]]
    party.masked(4, QUESTION, vector, hospitals.names)
    for number in (4, 3, 2**32):
        with pytest.raises(SecureSumError, match="each is answered once"):
            party.masked(number, QUESTION, vector, hospitals.names)
    party.masked(5, QUESTION, vector, hospitals.names)
    for number in (4, 6):
        with pytest.raises(SecureSumError, match=f"round {number} is not under way"):
            party.handle("release", told(number, hospitals.names))


@pytest.mark.parametrize(
    ("centers", "reason"),
    [
        ((0, 1), "over 2 centers, and 3 are needed"),
        ((0, 1, 2), None),
        ((1, 2, 3), "named among the centers"),
        ((0, 1, 1, 2), "named once"),
    ],
)
def test_a_center_takes_part_only_among_enough_centers(
    centers: tuple[int, ...], reason: str | None
) -> None:
    hospitals = Hospitals(5).ready()
    party = hospitals.parties[hospitals.names[0]]
    names = [hospitals.names[index] for index in centers]
    vector = np.zeros(2, dtype=np.uint64)
    if reason is None:
        assert party.masked(1, QUESTION, vector, names)
        return
    with pytest.raises(SecureSumError, match=reason):
        party.masked(1, QUESTION, vector, names)
    party.masked(1, QUESTION, vector, hospitals.names)
    with pytest.raises(SecureSumError, match=r"are needed|named among the centers|malformed"):
        party.handle("release", told(1, names))


def test_two_lists_of_centers_in_one_round_do_not_fit_together() -> None:
    hospitals = Hospitals(5).ready()
    vectors = random_vectors(hospitals.names, 3)

    def collect(number: int, shares: Mapping[str, bytes]) -> dict[str, bytes]:
        centers = tuple(shares)
        lists = dict.fromkeys(centers, centers) | {centers[0]: centers[:4]}
        return {
            name: hospitals.parties[name].masked(number, QUESTION, vectors[name], lists[name])
            for name in centers
        }

    with pytest.raises(SecureSumError, match=f"'{hospitals.names[0]}' is not validly signed"):
        hospitals.coordinator.sum(QUESTION, collect)


@cache
def ready_hospitals() -> Hospitals:
    return Hospitals(3).ready()


@settings(max_examples=60)
@given(
    step=st.sampled_from(["shares", "release", "recovery", "nonsense"]),
    message=st.one_of(
        st.binary(max_size=80),
        st.builds(told, st.integers(0, 3), st.lists(st.text(max_size=4), max_size=4)),
        st.builds(
            lambda parts: ByName(parts).to_bytes(),
            st.dictionaries(st.text(max_size=4), st.binary(max_size=170), max_size=4),
        ),
    ),
)
def test_nothing_that_a_coordinator_may_write_does_more_than_a_refusal(
    step: str, message: bytes
) -> None:
    hospitals = ready_hospitals()
    with pytest.raises(SecureSumError):
        hospitals.parties[hospitals.names[0]].handle(step, message)


def set_up_with(hospitals: Hospitals, members: Collection[str]) -> None:
    """A coordinator that makes a session of some centers only."""
    known = {name: hospitals.known[name] for name in members}
    sums = SecureSum(STUDY, known, directly(hospitals.parties))
    sums.set_up()
    hand_out(sums, hospitals.deliver)


def test_sets_of_centers_can_only_shrink_from_set_up_to_set_up() -> None:
    """Else four sessions of three centers each would give every one of four by subtraction."""
    hospitals = Hospitals(7)
    set_up_with(hospitals, hospitals.names[:6])
    set_up_with(hospitals, hospitals.names[:5])
    set_up_with(hospitals, hospitals.names[:5])  # the same again, as after a restart
    with pytest.raises(SecureSumError, match=r"left out of an earlier set-up"):
        set_up_with(hospitals, hospitals.names[1:6])


def test_a_small_session_does_not_make_small_sums() -> None:
    hospitals = Hospitals(10)
    few = hospitals.names[:4]
    set_up_with(hospitals, few)
    vector = np.zeros(3, dtype=np.uint64)
    with pytest.raises(SecureSumError, match=r"over 4 centers, and 6 are needed"):
        hospitals.parties[few[0]].masked(1, QUESTION, vector, few)


def test_shares_that_come_again_bring_no_center_back() -> None:
    """Who sent them twice would have sums with a center and without it."""
    hospitals = Hospitals(5)
    hospitals.coordinator.set_up()
    shares, vectors = dict(hospitals.coordinator._shares), random_vectors(hospitals.names, 2)
    hospitals.sum(vectors, without=hospitals.names[4:])
    for name, own in shares.items():
        hospitals.parties[name].accept(own)
    hospitals.coordinator.centers = hospitals.names
    with pytest.raises(SecureSumError, match="cannot take part"):
        hospitals.sum(vectors)


NAMES = ("A", "B", "C", "D", "E")
LEFT_OUT = r"was left out of an earlier set-up or sum"


class Restarting:
    """Five hospitals whose processes end with every job; their disks stay."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.identities = {name: Identity.create() for name in NAMES}
        self.known = {name: identity.public for name, identity in self.identities.items()}
        self.memories: list[StudyMemory] = []
        self.parties: dict[str, SecureSumCenter] = {}
        self.restart()

    def restart(self) -> None:
        self.close()
        memories = {name: StudyMemory(self.folder / name) for name in NAMES}
        self.memories = list(memories.values())
        self.parties = {
            name: SecureSumCenter(
                name, STUDY, self.identities[name], self.known, memory=memories[name]
            )
            for name in NAMES
        }

    def close(self) -> None:
        for memory in self.memories:
            memory.close()

    def set_up(self, members: Collection[str] = NAMES) -> SecureSum:
        known = {name: self.known[name] for name in members}
        sums = SecureSum(STUDY, known, directly(self.parties))
        sums.set_up()
        hand_out(sums, lambda name, shares: self.parties[name].accept(shares))
        return sums

    def ask(self, sums: SecureSum, *, lost: Collection[str] = (), whole: bool = False) -> int:
        """One sum of ones; those `lost` do not answer."""

        def collect(number: int, shares: Mapping[str, bytes]) -> dict[str, bytes]:
            one, replies = np.ones(1, dtype=np.uint64), {}
            for name in sorted(set(shares) - set(lost)):
                party = self.parties[name]
                replies[name] = party.masked(number, QUESTION, one, tuple(shares), whole=whole)
            return replies

        return int(sums.sum(QUESTION, collect).total[0])


@pytest.fixture
def hospitals(tmp_path: Path) -> Restarting:
    return Restarting(tmp_path)


def test_the_same_centers_go_on_after_a_restart(hospitals: Restarting) -> None:
    for _ in range(3):
        assert hospitals.ask(hospitals.set_up()) == 5
        hospitals.restart()


def test_a_center_that_was_lost_in_mid_round_comes_back_if_no_sum_was_without_it(
    hospitals: Restarting,
) -> None:
    """All have masked their replies, one is killed, and the coordinator waits for it."""
    hospitals.set_up()
    one = np.ones(1, dtype=np.uint64)
    for name in NAMES[:4]:
        hospitals.parties[name].masked(1, QUESTION, one, NAMES)
    hospitals.restart()
    assert hospitals.ask(hospitals.set_up()) == 5


def test_a_center_left_out_of_a_set_up_stays_out(hospitals: Restarting) -> None:
    hospitals.set_up(NAMES[:4])
    hospitals.restart()
    with pytest.raises(SecureSumError, match=f"E {LEFT_OUT}"):
        hospitals.set_up()
    assert hospitals.ask(hospitals.set_up(NAMES[:4])) == 4


def test_a_center_left_out_of_a_sum_stays_out(hospitals: Restarting) -> None:
    """Else every center's own reply could be had, losing one after the other."""
    assert hospitals.ask(hospitals.set_up()) == 5
    assert hospitals.ask(hospitals.set_up(), lost={"E"}) == 4
    for _ in range(2):
        with pytest.raises(SecureSumError, match=f"E {LEFT_OUT}"):
            hospitals.set_up()
        hospitals.restart()
    four = hospitals.set_up(NAMES[:4])
    assert hospitals.ask(four, lost={"D"}) == 3
    hospitals.restart()
    for members in (NAMES[:4], ("A", "B", "D")):
        with pytest.raises(SecureSumError, match=f"D {LEFT_OUT}"):
            hospitals.set_up(members)
    assert hospitals.ask(hospitals.set_up(NAMES[:3])) == 3


def test_who_vanished_after_it_sent_is_in_the_sum_and_may_come_back(
    hospitals: Restarting,
) -> None:
    sums = hospitals.set_up()
    party = hospitals.parties["E"]
    hospitals.parties["E"] = _Vanishing(party)  # type: ignore[assignment]
    with pytest.raises(SecureSumError):
        hospitals.ask(sums)  # a transport that loses a message ends the round
    hospitals.restart()
    assert hospitals.ask(hospitals.set_up()) == 5


class _Vanishing:
    def __init__(self, party: SecureSumCenter) -> None:
        self.masked, self.name = party.masked, party.name

    def handle(self, step: str, message: bytes) -> bytes:
        raise SecureSumError("gone")


def test_it_is_on_the_disk_before_the_release_leaves(
    hospitals: Restarting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Power lost at any moment of a release: without it, or with what it was for."""
    stops = 0
    for call in range(1, 30):
        hospitals.close()
        hospitals = Restarting(hospitals.folder.parent / f"run {call}")
        hospitals.set_up()
        one, party = np.ones(1, dtype=np.uint64), hospitals.parties["A"]
        party.masked(1, QUESTION, one, NAMES)
        with monkeypatch.context() as patch:
            cut_before(patch, call)
            try:
                party.handle("release", told(1, NAMES[:4]))
            except PowerCut:
                stops += 1
            else:
                break
        hospitals.restart()  # whether it left out E or not, it goes on
        hospitals.set_up(NAMES[:4])
    assert stops >= 4
    hospitals.restart()
    with pytest.raises(SecureSumError, match=f"E {LEFT_OUT}"):
        hospitals.set_up()


def test_a_release_that_cannot_be_written_down_is_not_given(
    hospitals: Restarting, monkeypatch: pytest.MonkeyPatch
) -> None:
    hospitals.set_up()
    party = hospitals.parties["A"]
    party.masked(1, QUESTION, np.ones(1, dtype=np.uint64), NAMES)
    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", lambda handle: (_ for _ in ()).throw(OSError(5, "gone")))
        with pytest.raises(RefusedError, match=r"nothing is answered"):
            party.handle("release", told(1, NAMES[:4]))
    party.handle("release", told(1, NAMES))


def test_a_whole_round_is_opened_for_all_or_not_at_all(hospitals: Restarting) -> None:
    sums = hospitals.set_up()
    assert hospitals.ask(sums, whole=True) == 5
    with pytest.raises(SecureSumError, match=r"repeats noise"):
        hospitals.ask(sums, whole=True, lost={"E"})
    hospitals.restart()
    assert hospitals.ask(hospitals.set_up()) == 5
