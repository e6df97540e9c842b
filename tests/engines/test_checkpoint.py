"""A study that is broken off and goes on: the bits of one that was not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from errno import ENOSPC
from hashlib import sha256
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from fedcox.engines import checkpoint
from fedcox.engines.checkpoint import Checkpointed
from fedcox.engines.codec.tree import Tree, from_bytes, to_bytes
from fedcox.engines.in_process import InProcess
from fedcox.engines.masked import Masked
from fedcox.errors import MessageError
from fedcox.federation.query import AbstractQuery, Federation
from fedcox.solvers.newton import Newton
from fedcox.study.fit import Estimate, estimate
from fedcox.study.plan import Plan
from tests.engines.nvflare.direct_transport import remote_federation
from tests.engines.nvflare.test_coordinator_end import SOLVERS, numbers, parts, plan, renumbered


class CrashError(Exception):
    """The process ends here."""


#: Seconds for what comes at once, and for what does not come.
_SOON, _LAST = 30.0, 0.05


class Watched:
    """A federation of which somebody hears the number of each round before it is asked."""

    def __init__(self, federation: Federation, hear: Callable[[int], None]) -> None:
        self._federation, self._hear, self._asked = federation, hear, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._federation, name)

    def ask_together(
        self, queries: Sequence[AbstractQuery[Any]], each: Sequence[AbstractQuery[Any]] = ()
    ) -> list[Any]:
        self._asked += 1
        self._hear(self._asked)
        return self._federation.ask_together(queries, each)


class Crashing:
    """A federation whose process ends at a round: before it is asked, or after the reply."""

    def __init__(self, federation: Federation, at: int) -> None:
        self._federation, self._at, self.asked = federation, at, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._federation, name)

    def ask_together(
        self, queries: Sequence[AbstractQuery[Any]], each: Sequence[AbstractQuery[Any]] = ()
    ) -> list[Any]:
        self.asked += 1
        if self.asked == self._at:
            raise CrashError
        return self._federation.ask_together(queries, each)


def estimated(chosen: Plan, federation: Any, folder: Path, *, noisy: bool = False) -> Estimate:
    with Checkpointed(federation, folder, columns=3, goes_on=noisy) as kept:
        return estimate(chosen, kept)


def kept_numbers(chosen: Plan, federation: Any, folder: Path) -> list[Any]:
    with Checkpointed(federation, folder, columns=3) as kept:
        return numbers(kept, chosen)


def same(found: list[Any], expected: list[Any]) -> bool:
    """But for numbers that go to the centers: after a crash they need the setting again."""
    for each in (found, expected):
        each[4] = [row._replace(numbers_down=0, bytes_down=0) for row in each[4]]
    return found == expected


@pytest.mark.parametrize("name", [name for name in SOLVERS if name != "compressed adam"])
def test_broken_off_at_every_round_it_ends_at_the_same_bits(name: str, tmp_path: Path) -> None:
    chosen = plan(SOLVERS[name])
    whole = numbers(remote_federation(parts()), chosen)
    rounds = whole[-1]
    for at in range(1, min(rounds, 9) + 1):
        folder = tmp_path / str(at)
        with pytest.raises(CrashError):
            estimated(chosen, Crashing(remote_federation(parts()), at), folder)
        again = Crashing(remote_federation(parts()), 0)
        assert same(kept_numbers(chosen, again, folder), whole)
        assert again.asked == rounds - at + 1  # finished rounds are not asked again


def test_a_finished_study_asks_nobody(tmp_path: Path) -> None:
    chosen = plan(Newton())
    whole = kept_numbers(chosen, remote_federation(parts()), tmp_path)
    again = Crashing(remote_federation(parts()), 1)
    assert kept_numbers(chosen, again, tmp_path) == whole


def test_secure_sums_go_on_too(tmp_path: Path) -> None:
    chosen = plan(Newton(), width=25.0, horizon=400.0)
    federation = InProcess.from_cohorts(renumbered(parts((80, 80, 80))))
    whole = estimate(chosen, Masked.around(federation))
    with pytest.raises(CrashError):
        estimated(chosen, Crashing(Masked.around(federation), 4), tmp_path)
    found = estimated(chosen, Masked.around(federation), tmp_path)
    assert found.solution.beta.tobytes() == whole.solution.beta.tobytes()
    assert found.inference.covariance.tobytes() == whole.inference.covariance.tobytes()


def test_rounds_of_other_centers_are_not_used(tmp_path: Path) -> None:
    chosen = plan(Newton())
    with pytest.raises(CrashError):
        estimated(chosen, Crashing(remote_federation(parts()), 5), tmp_path)
    fewer = {name: cohort for name, cohort in parts().items() if name != "center 00"}
    again = Crashing(remote_federation(fewer), 0)
    found = kept_numbers(chosen, again, tmp_path)
    assert found == numbers(remote_federation(fewer), chosen)
    assert again.asked == found[-1]


def test_rounds_of_another_study_are_not_used(tmp_path: Path) -> None:
    estimated(plan(Newton()), remote_federation(parts()), tmp_path)
    other = plan(Newton(), width=40.0, horizon=None)
    assert kept_numbers(other, remote_federation(parts()), tmp_path) == numbers(
        remote_federation(parts()), other
    )


def test_a_half_written_round_is_not_there(tmp_path: Path) -> None:
    chosen = plan(Newton())
    with pytest.raises(CrashError):
        estimated(chosen, Crashing(remote_federation(parts()), 4), tmp_path)
    (tmp_path / ".round-000004.bin.part").write_bytes(b"half")
    found = kept_numbers(chosen, remote_federation(parts()), tmp_path)
    assert same(found, numbers(remote_federation(parts()), chosen))


def test_a_damaged_round_is_told(tmp_path: Path) -> None:
    chosen = plan(Newton())
    estimated(chosen, remote_federation(parts()), tmp_path)
    file = tmp_path / "round-000002.bin"
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(MessageError):
        estimated(chosen, remote_federation(parts()), tmp_path)


@pytest.mark.parametrize("part", ["asked", "centers", "left", "replies", "each", "ledger"])
def test_a_round_without_one_of_its_parts_is_told(tmp_path: Path, part: str) -> None:
    chosen = plan(Newton())
    estimated(chosen, remote_federation(parts()), tmp_path)
    file = tmp_path / "round-000002.bin"
    tree = from_bytes(file.read_bytes()[: -sha256().digest_size])
    assert isinstance(tree, dict)
    altered: Tree
    for altered in ({key: tree[key] for key in tree if key != part}, {**tree, part: 1}):
        content = to_bytes(altered)
        file.write_bytes(content + sha256(content).digest())
        with pytest.raises(MessageError, match="damaged"):
            estimated(chosen, remote_federation(parts()), tmp_path)


@pytest.mark.parametrize("place", [0.1, 0.5, 0.9])
def test_a_round_that_lost_a_bit_is_not_used(tmp_path: Path, place: float) -> None:
    chosen = plan(Newton())
    estimated(chosen, remote_federation(parts()), tmp_path)
    file = tmp_path / "round-000002.bin"
    content = bytearray(file.read_bytes())
    content[int(place * len(content))] ^= 1
    file.write_bytes(bytes(content))
    with pytest.raises(MessageError, match="damaged"):
        estimated(chosen, remote_federation(parts()), tmp_path)


def test_a_round_of_another_version_of_fedcox_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = plan(Newton())
    with pytest.raises(CrashError):
        estimated(chosen, Crashing(remote_federation(parts()), 4), tmp_path)
    monkeypatch.setattr(checkpoint, "_own_version", lambda: "99.0")
    with pytest.raises(MessageError, match="of another version of fedcox"):
        estimated(chosen, remote_federation(parts()), tmp_path)


def test_a_round_is_written_while_the_next_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen, asked = plan(Newton()), Event()
    beside: list[bool] = []

    def hear(number: int) -> None:
        if number > 1:
            asked.set()

    def write(file: Path, content: bytes) -> None:
        beside.append(asked.wait(_LAST if len(beside) + 1 == rounds else _SOON))
        asked.clear()

    rounds = numbers(remote_federation(parts()), chosen)[-1]
    monkeypatch.setattr(checkpoint, "_write", write)
    estimated(chosen, Watched(remote_federation(parts()), hear), tmp_path)
    assert beside == [True] * (rounds - 1) + [False]


def test_under_noise_a_round_is_on_the_disk_before_the_next_is_asked(tmp_path: Path) -> None:
    chosen = plan(Newton())
    found: list[int] = []

    def look(number: int) -> None:
        found.append(len(list(tmp_path.glob("round-*.bin"))) - (number - 1))

    estimated(chosen, Watched(remote_federation(parts()), look), tmp_path, noisy=True)
    assert set(found) == {0}


def test_killed_while_a_round_is_being_written_it_is_asked_again(tmp_path: Path) -> None:
    chosen = plan(Newton())
    whole = numbers(remote_federation(parts()), chosen)
    with pytest.raises(CrashError):
        estimated(chosen, Crashing(remote_federation(parts()), 5), tmp_path)
    (tmp_path / "round-000004.bin").rename(tmp_path / ".round-000004.bin.part")
    again = Crashing(remote_federation(parts()), 0)
    assert same(kept_numbers(chosen, again, tmp_path), whole)
    assert again.asked == whole[-1] - 3


def test_a_round_that_cannot_be_written_stops_the_study(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(file: Path, content: bytes) -> None:
        raise OSError(ENOSPC, "No space left on device")

    monkeypatch.setattr(checkpoint, "_write", full)
    hub = Crashing(remote_federation(parts()), 0)
    with pytest.raises(OSError, match="No space"):
        estimated(plan(Newton()), hub, tmp_path)
    assert hub.asked == 2
