"""Centers reached by messages: the pooled fit to the last bit, and what is refused by name."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import numpy as np
import pytest

from fedcox.engines.codec.tree import from_bytes, to_bytes
from fedcox.engines.in_process import InProcess
from fedcox.engines.nvflare.coordinator_end import CoordinatorEnd, Exchange
from fedcox.engines.nvflare.transport import Heard, Silence
from fedcox.errors import CentersMissingError
from fedcox.federation.query import Federation
from fedcox.solvers.adam import Adam
from fedcox.solvers.federated_averaging import FederatedAveraging
from fedcox.solvers.lbfgs import LBFGS
from fedcox.solvers.newton import Newton
from fedcox.solvers.solver import AbstractSolver
from fedcox.study.fit import estimate
from fedcox.study.plan import Plan
from fedcox.survival.cohort import Cohort
from fedcox.survival.link import LINKS
from tests.engines.nvflare.direct_line import hub_over
from tests.engines.nvflare.wrong_answers import read_spoilt_ones_too
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
    for cohorts in (parts(), renumbered(parts())):
        found = numbers(hub_over(cohorts), chosen)
        assert found == numbers(InProcess.from_cohorts(cohorts), chosen)


def test_every_event_time_too() -> None:
    chosen = plan(Newton(), width=None, horizon=None)
    assert numbers(hub_over(parts()), chosen) == numbers(
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
        estimate(plan(Newton()), hub_over(parts(), needed=5, tamper=tamper))
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

    found = estimate(plan(Newton()), hub_over(parts(), needed=4, tamper=tamper))
    assert found.lost == ("center 01",)
    others = {name: cohort for name, cohort in parts().items() if name != "center 01"}
    alone = estimate(plan(Newton()), InProcess.from_cohorts(others))
    np.testing.assert_allclose(found.solution.beta, alone.solution.beta, rtol=1e-9)
    np.testing.assert_allclose(
        found.inference.covariance, alone.inference.covariance, rtol=1e-7
    )


def test_a_center_that_failed_is_not_asked_again() -> None:
    asked: list[Exchange] = []

    def tamper(name: str, call: int, answer: bytes) -> bytes | Silence:
        return Silence("no answer") if name == "center 02" and call >= 4 else answer

    estimate(plan(Newton()), hub_over(parts(), needed=3, tamper=tamper, watch=asked.append))
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

    hub = hub_over(parts())
    board = hub._switchboard
    with pytest.raises(IndexError):
        board.try_once("ping", dict.fromkeys(board.names), faulty)


@pytest.mark.parametrize("name", ["newton", "compressed adam", "averaging"])
def test_whatever_a_center_answers_costs_that_center_alone(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen, cohorts = plan(SOLVERS[name]), renumbered(parts((150, 90)))
    expected = numbers(InProcess.from_cohorts(cohorts), chosen)
    hub = hub_over(cohorts)
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

    found = estimate(plan(Newton()), hub_over(parts(), needed=4, tamper=tamper))
    assert found.lost == ("center 01",)


def test_an_answer_of_an_earlier_round_is_refused_by_its_number() -> None:
    kept: dict[str, bytes] = {}

    def tamper(name: str, call: int, answer: bytes) -> bytes:
        if name == "center 00" and call == 5:
            return kept[name]
        kept[name] = answer
        return answer

    with pytest.raises(CentersMissingError, match=r"answers message 4 \(ask\), not 5 \(ask\)"):
        estimate(plan(Newton()), hub_over(parts(), needed=5, tamper=tamper))


def test_an_answer_of_another_run_is_refused() -> None:
    first: list[bytes] = []

    def record(name: str, call: int, answer: bytes) -> bytes:
        if (name, call) == ("center 00", 3):
            first.append(answer)
        return answer

    estimate(plan(Newton()), hub_over(parts(), tamper=record))

    def replay(name: str, call: int, answer: bytes) -> bytes:
        return first[0] if (name, call) == ("center 00", 3) else answer

    with pytest.raises(CentersMissingError, match="It is of another run"):
        estimate(plan(Newton()), hub_over(parts(), needed=5, tamper=replay))
