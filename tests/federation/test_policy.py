"""Is a policy read as it is written, refused where it is wrong, and kept by the gate?"""

from __future__ import annotations

import os
import re
import threading
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from fedcox.errors import PolicyError, RefusedError
from fedcox.federation.policy import USUAL_DELTA, Gate, Policy
from fedcox.federation.queries import answered_by_default
from fedcox.privacy.study_memory import StudyMemory
from tests.docs.pages import ROOT
from tests.privacy.test_study_memory import PowerCut, cut_before

names = st.just("all") | st.lists(st.text(min_size=1, max_size=20), max_size=4)


def faults(text: str) -> tuple[str, ...]:
    with pytest.raises(PolicyError) as refused:
        Policy.parse(text)
    return refused.value.faults


def test_the_defaults_are_those_argued_for() -> None:
    policy = Policy()
    assert (policy.columns, policy.questions) == ("all", answered_by_default())
    assert not policy.exact_sums
    assert (policy.epsilon, policy.delta) == (None, None)
    assert (policy.centers, policy.rounds) == (3, 200)


def test_the_page_about_policies_names_every_key() -> None:
    page = (ROOT / "docs" / "how-to-set-a-policy.md").read_text(encoding="utf-8")
    named = re.findall(r"^\| `(\w+)` \|", page, flags=re.MULTILINE)
    assert named == list(Policy.model_fields)


def test_an_empty_file_is_the_default(tmp_path: Path) -> None:
    file = tmp_path / "policy.toml"
    file.write_text("", encoding="utf-8")
    assert Policy.read(file) == Policy()


def test_one_line_is_a_policy_and_an_epsilon_never_stands_without_a_delta() -> None:
    """Else a study with a delta near one would pass, whose noise hides nobody."""
    policy = Policy.parse("epsilon = 10")
    assert (policy.epsilon, policy.delta) == (10, USUAL_DELTA)
    assert policy == Policy(epsilon=10)
    for delta, faults in ((1e-3, []), (1.1e-3, ["delta"]), (0.5, ["delta"])):
        found = [fault.split(":")[0] for fault in policy.faults(epsilon=9, delta=delta)]
        assert found == faults
    assert Policy.parse("epsilon = 10\ndelta = 1e-5").delta == 1e-5
    assert Policy.parse("exact_sums = true").delta is None


@given(
    columns=names,
    questions=names,
    exact_sums=st.booleans(),
    epsilon=st.none() | st.floats(1e-6, 1e6),
    delta=st.none() | st.floats(1e-12, 0.5),
    centers=st.integers(3, 50),
    rounds=st.integers(1, 10**6),
)
def test_what_is_written_reads_back(**keys: Any) -> None:
    policy = Policy(**keys)
    assert Policy.parse(policy.to_toml()) == policy


def test_every_key_is_written_below_what_it_means() -> None:
    written = Policy().to_toml()
    keys = tomllib.loads(written)
    for key, field in Policy.model_fields.items():
        assert field.description
        assert key in keys or f"# {key} =\n" in written
    assert max(map(len, written.splitlines())) <= 96


def test_a_policy_is_frozen() -> None:
    with pytest.raises(ValidationError):
        Policy().rounds = 1


def test_all_faults_are_told_at_once() -> None:
    found = faults(
        """
        self = 1
        column = ["age"]
        columns = [1]
        questions = "some"
        exact_sums = "yes"
        epsilon = inf
        delta = 1
        centers = 2
        rounds = 2.5
        """
    )
    keys = "columns, questions, exact_sums, epsilon, delta, centers, rounds"
    assert set(found) == {
        f"self: unknown key. The keys are {keys}.",
        f"column: unknown key. Did you mean 'columns'? The keys are {keys}.",
        'columns: found [1]; a list of names in quotes, or "all" is needed.',
        'questions: found "some"; a list of names in quotes, or "all" is needed.',
        'exact_sums: found "yes"; true or false is needed.',
        "epsilon: found inf; a finite number above 0 is needed.",
        "delta: found 1; a number between 0 and 1 is needed.",
        "centers: found 2; a whole number of at least 3, since of two each would learn the "
        "other's numbers, is needed.",
        "rounds: found 2.5; a whole number of at least 1 is needed.",
    }


def test_a_file_with_the_tables_of_before_is_told_what_replaced_each() -> None:
    found = faults(
        """
        [cohort]
        patients = 20
        [groups]
        interval = 5
        [blocks]
        times = 8
        [parameters]
        rounds = 100
        [protection]
        centers = 5
        [differential_privacy]
        required = true
        epsilon = 3
        """
    )
    assert [fault.split(":")[0] for fault in found] == [
        "[cohort]",
        "[groups]",
        "[blocks]",
        "[parameters]",
        "[protection]",
        "[differential_privacy]",
    ]
    assert all("no tables any more" in fault for fault in found)
    assert "centers is a line of its own" in found[4]
    (questions,) = faults('[questions]\nallowed = ["gradient"]')
    assert questions.startswith("[questions]: a policy has no tables any more")


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    broken, latin = tmp_path / "broken.toml", tmp_path / "latin.toml"
    broken.write_text("[cohort", encoding="utf-8")
    latin.write_bytes(b"# caf\xe9\n")
    for path, words in (
        (tmp_path / "none.toml", "no such policy file"),
        (tmp_path, "this is a folder"),
        (broken, "not valid TOML"),
        (latin, "not UTF-8 text"),
    ):
        with pytest.raises(PolicyError) as refused:
            Policy.read(path)
        assert str(path) in str(refused.value)
        assert words in str(refused.value)


def test_nothing_is_refused_of_a_study_that_meets_the_policy() -> None:
    assert not Policy().faults(
        columns=["age", "sex"],
        questions=answered_by_default(),
        noised=True,
        rounds=200,
        centers=3,
        epsilon=1000.0,
        delta=0.1,
    )
    assert not Policy.without_limits().faults(
        columns=["age"], questions=["local steps"], noised=False, rounds=5000
    )


def test_everything_that_is_refused_is_told_at_once() -> None:
    policy = Policy(columns=["age"], epsilon=1.0, delta=1e-5, centers=5, rounds=10)
    found = policy.faults(
        columns=["age", "hiv"],
        questions=["gradient", "distinct event times"],
        noised=False,
        rounds=11,
        centers=4,
        epsilon=1.5,
        delta=1e-4,
    )
    rules = [fault.split(":")[0] for fault in found]
    keys = ["columns", "questions", "exact_sums", "centers", "rounds", "epsilon", "delta"]
    assert rules == keys
    assert "'hiv'" in found[0]
    assert "'age'" not in found[0]
    assert "'gradient'" not in found[1]


def test_exact_sums_leave_only_where_the_hospital_says_so() -> None:
    (fault,) = Policy().faults(questions=["gradient"], noised=False)
    assert fault.startswith("exact_sums: ")
    assert "may be computed" in fault
    assert not Policy(exact_sums=True).faults(questions=["gradient"], noised=False)
    assert not Policy().faults(questions=["noised score"], noised=True)


@pytest.mark.parametrize("epsilon", [1001.0, 1e9, float("inf")])
def test_noise_that_stands_for_nothing_is_none(epsilon: float) -> None:
    (fault,) = Policy().faults(questions=["noised score"], noised=True, epsilon=epsilon)
    assert fault.startswith("exact_sums: ")
    assert "next to none" in fault
    assert not Policy(exact_sums=True).faults(noised=True, epsilon=epsilon)
    assert not Policy().faults(questions=["noised score"], noised=True, epsilon=1000.0)


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


@settings(max_examples=20)
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
