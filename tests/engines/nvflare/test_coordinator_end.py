"""Does the coordinator's end give what one process gives, and name whoever fails?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Barrier
from typing import Any

import numpy as np
import pytest

from fedcox.engines.codec.tree import from_bytes, to_bytes
from fedcox.engines.in_process import InProcess
from fedcox.engines.masked import Masked
from fedcox.engines.nvflare.center_end import CenterEnd, OpenStudy
from fedcox.engines.nvflare.coordinator_end import (
    CoordinatorEnd,
    MessageRound,
    RemoteMaskedCenters,
)
from fedcox.engines.nvflare.transport import Heard, Silence
from fedcox.errors import CentersMissingError, SecureSumError
from fedcox.federation.center import Center
from fedcox.federation.masked_center import MaskedCenter
from fedcox.federation.queries.outcome_counts import OutcomeCounts
from fedcox.federation.query import Federation
from fedcox.privacy.identity import Identity
from fedcox.privacy.masks import CHECK
from fedcox.privacy.messages import ByName, sign, vector_in
from fedcox.privacy.secure_sum_center import SecureSumCenter
from fedcox.solvers.adam import Adam
from fedcox.solvers.federated_averaging import FederatedAveraging
from fedcox.solvers.lbfgs import LBFGS
from fedcox.solvers.newton import Newton
from fedcox.solvers.solver import AbstractSolver
from fedcox.study.fit import estimate
from fedcox.study.plan import Plan
from fedcox.survival.cohort import Cohort
from fedcox.survival.link import LINKS
from tests.engines.nvflare.direct_transport import (
    ASKED,
    DirectTransport,
    OpenAdmission,
    invite,
    remote_federation,
)
from tests.engines.nvflare.wrong_answers import read_spoilt_ones_too
from tests.engines.test_masked import cohorts
from tests.privacy.secure_sum_examples import SIGNATURE, flipped
from tests.problems import simulated, split

COHORT = simulated(240, 3, seed=1)
SOLVERS: dict[str, AbstractSolver] = {
    "newton": Newton(),
    "lbfgs": LBFGS(),
    "adam": Adam(steps=15, learning_rate=0.05),
    "adam in batches": Adam(steps=15, learning_rate=0.05, batch_size=32),
    "compressed adam": Adam(steps=10, learning_rate=0.05, compression="random-k"),
    "averaging": FederatedAveraging(rounds=5, local_steps=3),
}


def parts(sizes: tuple[int, ...] = (120, 90, 29, 1, 0)) -> dict[str, Cohort]:
    """Unequal centers, one of a single patient, one of none."""
    assignment = np.repeat(np.arange(len(sizes)), sizes)
    return split(COHORT, np.random.default_rng(3).permutation(assignment), len(sizes))


def plan(solver: AbstractSolver, **grid: Any) -> Plan:
    chosen = grid or {"width": 25.0, "horizon": None}
    return Plan(
        ("a", "b", "c"), LINKS["cloglog"], "include", ridge=0.0, solver=solver, **chosen
    )


def numbers(federation: Federation, chosen: Plan) -> list[Any]:
    found = estimate(chosen, federation)
    return [
        found.alpha.tobytes(),
        found.solution.beta.tobytes(),
        found.inference.covariance.tobytes(),
        found.solution.loss.hex(),
        found.ledger,
        found.rounds,
    ]


@pytest.mark.parametrize("name", SOLVERS)
def test_every_solver_gives_the_bits_and_the_ledger_of_one_process(name: str) -> None:
    chosen = plan(SOLVERS[name])
    for divided in (parts(), renumbered(parts())):
        found = numbers(remote_federation(divided), chosen)
        assert found == numbers(InProcess.from_cohorts(divided), chosen)


def test_every_event_time_too() -> None:
    chosen = plan(Newton(), width=None, horizon=None)
    assert numbers(remote_federation(parts()), chosen) == numbers(
        InProcess.from_cohorts(parts()), chosen
    )


def renumbered(cohorts: dict[str, Cohort]) -> dict[str, Cohort]:
    """Without the numbers of the table they were cut from, as files of hospitals come."""
    return {
        name: Cohort(each.covariates, each.time, each.event) for name, each in cohorts.items()
    }


def nan_in(answer: bytes) -> bytes:
    """The same answer with its first array of numbers spoilt."""
    tree = from_bytes(answer)

    def spoilt(part: Any) -> Any:
        if isinstance(part, np.ndarray) and part.dtype == np.float64 and part.size:
            changed = part.copy()
            changed.flat[0] = np.nan
            return changed
        if isinstance(part, dict):
            return {key: spoilt(value) for key, value in part.items()}
        return [spoilt(value) for value in part] if isinstance(part, list) else part

    return to_bytes(spoilt(tree))


def longer(answer: bytes) -> bytes:
    """The same answer with one number too many in its arrays."""
    tree = from_bytes(answer)

    def grown(part: Any) -> Any:
        if isinstance(part, np.ndarray):
            return np.append(part.ravel(), part.ravel()[:1])
        if isinstance(part, dict):
            return {key: grown(value) for key, value in part.items()}
        return [grown(value) for value in part] if isinstance(part, list) else part

    return to_bytes(grown(tree))


FAULTS = {
    "not a number": (nan_in, "its answer cannot be used"),
    "wrong shape": (longer, "its answer cannot be used"),
    "cut": (lambda answer: answer[:-3], "its answer cannot be used"),
    "silence": (lambda answer: Silence("no answer within 60 seconds"), "no answer within"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_bad_answer_is_refused_by_the_center_s_name(fault: str) -> None:
    change, words = FAULTS[fault]

    def tamper(name: str, call: int, answer: bytes) -> Any:
        return change(answer) if (name, call) == ("center 01", 4) else answer

    with pytest.raises(CentersMissingError) as caught:
        estimate(plan(Newton()), remote_federation(parts(), needed=5, tamper=tamper))
    assert caught.value.subject == "4 centers are left, and the study needs 5."
    (told,) = caught.value.faults
    assert told.startswith(f"center 01: {words}")


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("call", [2, 3, 4, 6])
def test_where_the_study_allows_it_the_rest_goes_on_without_the_center(
    fault: str, call: int
) -> None:
    change, _ = FAULTS[fault]

    def tamper(name: str, number: int, answer: bytes) -> Any:
        return change(answer) if (name, number) == ("center 01", call) else answer

    found = estimate(plan(Newton()), remote_federation(parts(), needed=4, tamper=tamper))
    assert found.lost == ("center 01",)
    others = {name: cohort for name, cohort in parts().items() if name != "center 01"}
    alone = estimate(plan(Newton()), InProcess.from_cohorts(others))
    np.testing.assert_allclose(found.solution.beta, alone.solution.beta, rtol=1e-9)
    np.testing.assert_allclose(
        found.inference.covariance, alone.inference.covariance, rtol=1e-7
    )


def test_a_center_that_failed_is_not_asked_again() -> None:
    asked: list[MessageRound] = []

    def tamper(name: str, call: int, answer: bytes) -> bytes | Silence:
        return Silence("no answer") if name == "center 02" and call >= 4 else answer

    estimate(
        plan(Newton()), remote_federation(parts(), needed=3, tamper=tamper, watch=asked.append)
    )
    failed = [exchange.number for exchange in asked if exchange.lost]
    assert failed == [4]
    assert all("center 02" not in exchange.seconds for exchange in asked[4:])


class SomeAtOnce:
    """A line that tells of several answers at the same time, and of the last one later."""

    names = tuple("abcde")

    def call(self, messages: Mapping[str, bytes], timeout: float, heard: Heard) -> None:
        together = Barrier(len(messages) - 1)

        def one(name: str) -> None:
            together.wait()
            heard(name, Silence(f"said by {name}"))

        first, *others = messages
        with ThreadPoolExecutor(len(others)) as threads:
            list(threads.map(one, others))
        heard(first, Silence(f"said by {first}"))


def test_no_answer_is_lost_where_several_come_at_once() -> None:
    for _ in range(50):
        board = CoordinatorEnd(SomeAtOnce(), needed=0, timeout=1.0)
        _, lost = board.try_once("ping", dict.fromkeys("abcde"), lambda name, told: None)
        assert lost == {name: f"said by {name}" for name in "abcde"}


def test_a_fault_in_reading_is_told_and_not_taken_for_silence() -> None:
    def faulty(name: str, told: object) -> None:
        raise IndexError(name)

    hub = remote_federation(parts())
    board = hub._end
    with pytest.raises(IndexError):
        board.try_once("ping", dict.fromkeys(board.names), faulty)


@pytest.mark.parametrize("name", ["newton", "compressed adam", "averaging"])
def test_whatever_a_center_answers_costs_that_center_alone(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen, cohorts = plan(SOLVERS[name]), renumbered(parts((150, 90)))
    expected = numbers(InProcess.from_cohorts(cohorts), chosen)
    hub = remote_federation(cohorts)
    refused = read_spoilt_ones_too(monkeypatch)
    assert numbers(hub, chosen) == expected
    assert min(refused) > 50


def test_a_refusal_of_no_known_kind_loses_the_center_and_not_the_study() -> None:
    def tamper(name: str, call: int, answer: bytes) -> bytes:
        if (name, call) != ("center 01", 4):
            return answer
        tree = from_bytes(answer)
        assert isinstance(tree, dict)
        return to_bytes({**tree, "refused": {"reason": [], "rules": []}})

    found = estimate(plan(Newton()), remote_federation(parts(), needed=4, tamper=tamper))
    assert found.lost == ("center 01",)


def test_an_answer_of_an_earlier_round_is_refused_by_its_number() -> None:
    kept: dict[str, bytes] = {}

    def tamper(name: str, call: int, answer: bytes) -> bytes:
        if name == "center 00" and call == 5:
            return kept[name]
        kept[name] = answer
        return answer

    with pytest.raises(CentersMissingError, match=r"answers message 4 \(ask\), not 5 \(ask\)"):
        estimate(plan(Newton()), remote_federation(parts(), needed=5, tamper=tamper))


def test_an_answer_of_another_run_is_refused() -> None:
    first: list[bytes] = []

    def record(name: str, call: int, answer: bytes) -> bytes:
        if (name, call) == ("center 00", 3):
            first.append(answer)
        return answer

    estimate(plan(Newton()), remote_federation(parts(), tamper=record))

    def replay(name: str, call: int, answer: bytes) -> bytes:
        return first[0] if (name, call) == ("center 00", 3) else answer

    with pytest.raises(CentersMissingError, match="It is of another run"):
        estimate(plan(Newton()), remote_federation(parts(), needed=5, tamper=replay))


STEPS = ("keys", "shares", "masked", "release", "recovery")
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
    exchanges: list[MessageRound] = field(default_factory=list)

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
            sites[name] = CenterEnd(name, OpenAdmission(opened))
            self.parties[name] = party
        line = DirectTransport(sites, self._tamper)
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


def one_number_more(run: Run, name: str, body: dict[str, Any]) -> dict[str, Any]:
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
        return body | {part: one_number_more(run, FAULTY, body)[part] for part in parts}

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
