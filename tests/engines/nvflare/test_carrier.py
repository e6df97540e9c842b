"""Under masks, what one center sends wrong costs that center, as its silence would."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from fedcox.engines.codec.tree import from_bytes, to_bytes
from fedcox.engines.masked import Masked
from fedcox.engines.nvflare.center_end import CenterEnd, OpenStudy
from fedcox.engines.nvflare.coordinator_end import CoordinatorEnd, Exchange, RemoteMaskedCenters
from fedcox.engines.nvflare.transport import Silence
from fedcox.errors import CentersMissingError, SecureSumError
from fedcox.federation.center import Center
from fedcox.federation.masked_center import MaskedCenter
from fedcox.federation.queries.outcome_counts import OutcomeCounts
from fedcox.privacy.identity import Identity
from fedcox.privacy.masks import CHECK
from fedcox.privacy.messages import ByName, sign, vector_in
from fedcox.privacy.secure_sum_center import SecureSumCenter
from tests.engines.nvflare.direct_line import ASKED, DirectLine, OpenDesk, invite
from tests.engines.test_masked import cohorts
from tests.privacy.parties import SIGNATURE, flipped

STEPS = ("keys", "shares", "delivery", "masked", "release", "recovery")
STUDY = "study"
FAULTY, SILENT = "c02", "c04"

#: What becomes of the content of one center's answer.
Spoil = Callable[[Any], Any]


@dataclass
class Run:
    """Five centers under masks; at one step the answer of one of them is spoilt."""

    step: str
    spoil: Spoil
    needed: int = 3
    faulty: tuple[str, ...] = (FAULTY,)
    exchanges: list[Exchange] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.parts = cohorts(5)
        self.identities = {name: Identity.create() for name in self.parts}
        known = {name: identity.public for name, identity in self.identities.items()}
        self.parties: dict[str, SecureSumCenter] = {}
        sites = {}
        for name, part in self.parts.items():
            center = Center(name, part)
            party = SecureSumCenter(name, STUDY, self.identities[name], known)
            opened = OpenStudy(center, ASKED, b"schema", MaskedCenter(center, party))
            sites[name] = CenterEnd(name, OpenDesk(opened))
            self.parties[name] = party
        line = DirectLine(sites, self._tamper)
        self.board = CoordinatorEnd(
            line, needed=self.needed, timeout=60.0, watch=self.exchanges.append
        )
        invite(self.board, lambda _, told: None)
        self.known = known

    def _tamper(self, name: str, call: int, answer: bytes) -> bytes | Silence:
        tree: Any = from_bytes(answer)
        # Shares are given only for a center that vanished between its vector and its release.
        if (name, tree["step"], self.step) == (SILENT, "release", "recovery"):
            return Silence("no answer")
        if name not in self.faulty or tree["step"] != self.step or tree["refused"] is not None:
            return answer
        spoilt = self.spoil(tree["body"])
        return spoilt if isinstance(spoilt, Silence) else to_bytes({**tree, "body": spoilt})

    def counted(self) -> tuple[int, ...]:
        """Patients that two rounds of sums are over."""
        masked = Masked(STUDY, self.known, RemoteMaskedCenters(self.board))
        return tuple(masked.ask(OutcomeCounts()).patients for _ in range(2))

    def patients(self, *without: str) -> int:
        return sum(part.patients for name, part in self.parts.items() if name not in without)

    def told(self) -> dict[str, str]:
        return {name: why for each in self.exchanges for name, why in each.lost.items()}


def one_bit_other(body: Any) -> Any:
    if isinstance(body, dict):
        return {**body, "message": flipped(body["message"])}
    return flipped(body)


def expected(run: Run) -> tuple[int, ...]:
    """One that is lost after it sent its vector is in that sum, and in no later one."""
    gone = {FAULTY, SILENT} if run.step == "recovery" else {FAULTY}
    late = run.step in ("release", "recovery")
    return run.patients() if late else run.patients(*gone), run.patients(*gone)


@pytest.mark.parametrize("step", STEPS)
def test_one_altered_bit_costs_the_center_alone(step: str) -> None:
    run = Run(step, one_bit_other)
    assert run.counted() == expected(run)
    assert "not validly signed" in run.told()[FAULTY]
    assert run.board.names == tuple(
        name for name in run.parts if name != FAULTY and (name, step) != (SILENT, "recovery")
    )


@pytest.mark.parametrize("step", STEPS)
def test_it_costs_what_silence_at_the_same_step_costs(step: str) -> None:
    altered, silent = Run(step, one_bit_other), Run(step, lambda body: Silence("no answer"))
    assert altered.counted() == silent.counted()
    assert altered.board.names == silent.board.names
    assert [each.step for each in altered.exchanges] == [each.step for each in silent.exchanges]
    for name, party in altered.parties.items():
        assert party._active == silent.parties[name]._active
        assert party._once == silent.parties[name]._once


@pytest.mark.parametrize("step", STEPS)
def test_where_the_study_needs_it_the_run_stops_and_names_it(step: str) -> None:
    run = Run(step, one_bit_other, needed=4 if step == "recovery" else 5)
    with pytest.raises(CentersMissingError) as caught:
        run.counted()
    assert caught.value.faults[0].startswith(f"{FAULTY}: its answer cannot be used: ")
    assert "not validly signed" in caught.value.faults[0]


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("length", [0, 40, SIGNATURE - 1])
def test_a_message_that_was_cut_costs_the_center_alone(step: str, length: int) -> None:
    def cut(body: Any) -> Any:
        if isinstance(body, dict):
            return {**body, "message": body["message"][:length]}
        return body[:length]

    run = Run(step, cut)
    assert run.counted() == expected(run)


@pytest.mark.parametrize("key", [0, 1], ids=["for masks", "for shares"])
def test_a_key_that_gives_everybody_the_same_secret_costs_its_center_alone(key: int) -> None:
    def weak(body: bytes) -> bytes:
        keys = bytearray(body[SIGNATURE:])
        keys[32 * key : 32 * key + 32] = bytes(32)
        return sign(run.identities[FAULTY], "keys", STUDY.encode(), FAULTY, bytes(keys))

    run = Run("keys", weak)
    assert run.counted() == expected(run)
    assert "A public key of center 'c02' cannot be used" in run.told()[FAULTY]


def test_a_share_that_is_missing_costs_the_center_that_left_it_out() -> None:
    def left_out(body: bytes) -> bytes:
        boxes = dict(ByName.from_bytes(body[SIGNATURE:]).parts)
        del boxes["c00"]
        ring = run.parties[FAULTY]._ring
        assert ring is not None
        body, where = ByName(boxes).to_bytes(), ring.session.digest
        return sign(run.identities[FAULTY], "shares", where, FAULTY, body)

    run = Run("shares", left_out)
    assert run.counted() == expected(run)
    assert "did not give every other one a share" in run.told()[FAULTY]


def longer(run: Run, name: str, body: dict[str, Any]) -> dict[str, Any]:
    """A reply of one number more, as the center itself might have signed it."""
    more = np.append(vector_in(body["message"][SIGNATURE:]), CHECK).tobytes()
    current = run.parties[name]._round
    assert current is not None
    message = sign(run.identities[name], "vector", current.context, name, more)
    return {**body, "lengths": [body["lengths"][0] + 1], "message": message}


@pytest.mark.parametrize("parts", [{"lengths"}, {"message"}, {"lengths", "message"}])
def test_a_reply_of_another_length_than_all_others_costs_its_center_alone(
    parts: set[str],
) -> None:
    def spoil(body: dict[str, Any]) -> dict[str, Any]:
        return body | {part: longer(run, FAULTY, body)[part] for part in parts}

    run = Run("masked", spoil)
    assert run.counted() == expected(run)
    assert run.board.lost[FAULTY] == "its reply is not as long as those of the others"
    run = Run("masked", spoil, needed=5)
    with pytest.raises(CentersMissingError, match=f"{FAULTY}: its reply is not as long"):
        run.counted()


def test_where_no_length_is_that_of_most_replies_nobody_is_lost_and_nothing_summed() -> None:
    faulty = ("c01", "c02", "c03", "c04")
    added = iter((1, 1, 2, 2))  # so two and two are alike, and one is as it should be

    def spoil(body: dict[str, Any]) -> dict[str, Any]:
        return {**body, "lengths": [body["lengths"][0] + next(added)]}

    run = Run("masked", spoil, faulty=faulty)
    with pytest.raises(SecureSumError, match="different lengths"):
        run.counted()
    assert run.board.names == tuple(run.parts)
