"""A center that remembers which others were in every sum: restarts let no one slip back in."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import numpy as np
import pytest

from fedcox.errors import RefusedError, SecureSumError
from fedcox.privacy.identity import Identity
from fedcox.privacy.secure_sum import SecureSum
from fedcox.privacy.secure_sum_center import SecureSumCenter
from fedcox.privacy.study_memory import StudyMemory
from tests.privacy.parties import QUESTION, STUDY, directly, told
from tests.privacy.test_study_memory import PowerCut, cut_before

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
        return sums

    def ask(self, sums: SecureSum, *, lost: Collection[str] = (), whole: bool = False) -> int:
        """One sum of ones; those `lost` do not answer."""

        def collect(number: int, centers: tuple[str, ...]) -> dict[str, bytes]:
            one = np.ones(1, dtype=np.uint64)
            return {
                name: self.parties[name].masked(number, QUESTION, one, centers, whole=whole)
                for name in centers
                if name not in lost
            }

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
