"""A hospital's gate: what its policy refuses, and a count that no restart sets back."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedcox.errors import RefusedError
from fedcox.privacy.policy import Gate, Policy
from fedcox.privacy.study_memory import StudyMemory
from tests.privacy.test_study_memory import PowerCut, cut_before


def rules(gate: Gate, question: str = "noised score", *, noised: bool = True) -> list[str]:
    """What the gate refuses a question by; nothing where it lets it through."""
    try:
        gate.admit(question, noised=noised)
    except RefusedError as error:
        return [fault.split(":")[0] for fault in error.faults]
    return []


def test_without_noise_nothing_leaves_unless_the_policy_says_so() -> None:
    assert rules(Gate(Policy()), "gradient", noised=False) == ["exact_sums"]
    assert not rules(Gate(Policy(exact_sums=True)), "gradient", noised=False)


def test_questions_that_must_be_named_are_refused_even_with_exact_sums() -> None:
    gate = Gate(Policy(exact_sums=True))
    for question in ("local steps", "network gradient", "distinct event times"):
        assert rules(gate, question, noised=False) == ["questions"]
    named = Gate(Policy(exact_sums=True, questions=["local steps"]))
    assert not rules(named, "local steps", noised=False)
    assert not rules(Gate(Policy.without_limits()), "tile moments", noised=False)


def test_all_that_is_refused_is_told_at_once() -> None:
    gate = Gate(Policy(questions=["noised score"], rounds=1))
    assert not rules(gate)
    assert rules(gate, "hessian", noised=False) == ["questions", "exact_sums", "rounds"]


def test_a_refused_question_does_not_count() -> None:
    gate = Gate(Policy(rounds=1))
    for _ in range(3):
        assert rules(gate, "gradient", noised=False) == ["exact_sums"]
    assert not rules(gate)
    assert rules(gate) == ["rounds"]


@settings(max_examples=20, deadline=None)
@given(st.lists(st.booleans(), min_size=1, max_size=12))
def test_jobs_cut_anywhere_count_as_one(
    tmp_path_factory: pytest.TempPathFactory, restarts: list[bool]
) -> None:
    folder = tmp_path_factory.mktemp("gate") / "study"
    policy = Policy(rounds=4)
    memory = StudyMemory(folder)
    gate, passed = Gate(policy, memory), 0
    for restart in restarts:
        if restart:
            memory.close()
            memory = StudyMemory(folder)
            gate = Gate(policy, memory)
        passed += not rules(gate)
    assert passed == memory.now.answered == min(4, len(restarts))
    memory.close()


def test_power_lost_at_any_moment_never_lets_more_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stops = 0
    for call in range(1, 100):
        folder, left = tmp_path / str(call), 0
        with StudyMemory(folder) as memory, monkeypatch.context() as patch:
            gate = Gate(Policy(), memory)
            cut_before(patch, call)
            try:
                for _ in range(3):
                    gate.admit("noised score", noised=True)
                    left += 1
            except PowerCut:
                stops += 1
            else:
                break
        with StudyMemory(folder) as memory:
            assert left <= memory.now.answered <= left + 1
    assert stops >= 12


def test_what_cannot_be_written_is_not_admitted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with StudyMemory(tmp_path / "study") as memory:
        gate = Gate(Policy(rounds=1), memory)
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", lambda handle: (_ for _ in ()).throw(OSError(5, "gone")))
            with pytest.raises(RefusedError, match=r"nothing is answered"):
                gate.admit("noised score", noised=True)
        assert not rules(gate)
        assert rules(gate) == ["rounds"]


@pytest.mark.parametrize("remembering", [False, True])
def test_questions_at_the_same_moment_do_not_share_the_last_round(
    tmp_path: Path, remembering: bool
) -> None:
    memory = StudyMemory(tmp_path / "study") if remembering else None
    gate, passed = Gate(Policy(rounds=5), memory), []
    begin = threading.Barrier(8)

    def ask(number: int) -> None:
        begin.wait()
        for each in range(4):
            if not rules(gate):
                passed.append((number, each))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(passed) == 5
    if memory is not None:
        memory.close()
