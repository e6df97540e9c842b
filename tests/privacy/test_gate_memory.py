"""A gate that remembers: restarts give no fresh limits, and repeated questions cost nothing."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedcox.errors import RefusedError
from fedcox.privacy.exposure import Known, Request
from fedcox.privacy.gate import Gate
from fedcox.privacy.policy import Policy
from fedcox.privacy.study_memory import StudyMemory
from tests.privacy.test_gate import ALPHA, BLOCK, GRADIENT, along, at, refused
from tests.privacy.test_study_memory import PowerCut, cut_before


@contextmanager
def restarted(folder: Path, policy: Policy | None = None) -> Iterator[Gate]:
    """The gate of a new process."""
    with StudyMemory(folder / "study") as memory:
        yield Gate(policy or Policy(), memory)


def question(number: int) -> bytes:
    return number.to_bytes(32, "big")


def test_a_new_job_gets_no_fresh_rounds_or_blocks(tmp_path: Path) -> None:
    policy = Policy(blocks={"times": 2}, parameters={"rounds": 4})
    for number in range(4):
        with restarted(tmp_path, policy) as gate:
            gate.admit([GRADIENT, BLOCK][number % 2], Known(), question(number))
    with restarted(tmp_path, policy) as gate:
        assert (gate.rounds, gate.blocks) == (4, 2)
        assert refused(gate, GRADIENT) == ["[parameters] rounds"]
        assert refused(gate, BLOCK) == ["[parameters] rounds", "[blocks] times"]


def test_refusals_are_counted_over_jobs(tmp_path: Path) -> None:
    policy = Policy(questions={"refusals": 3})
    for _ in range(3):
        with restarted(tmp_path, policy) as gate:
            assert refused(gate, at(along(9.0)))
    with restarted(tmp_path, policy) as gate:
        assert refused(gate, GRADIENT) == ["[questions] refusals"]


def test_steps_and_grids_go_on_from_where_they_were(tmp_path: Path) -> None:
    grid = Known(edges=np.array([30.0, 60.0, 90.0]))
    with restarted(tmp_path) as gate:
        gate.admit(at(along(2.9)), grid, question(1))
    with restarted(tmp_path) as gate:
        assert not refused(gate, at(along(4.9)), grid)
    with restarted(tmp_path) as gate:
        assert refused(gate, at(along(0.1)), grid) == ["[parameters] beta_step"]
        moved = Known(edges=np.array([30.0, 61.0]))
        assert refused(gate, at(along(4.0)), moved) == ["[groups] one_grid"]


def test_the_first_grid_of_a_set_of_centers_is_kept(tmp_path: Path) -> None:
    three, two = frozenset("ABC"), frozenset("AB")
    with restarted(tmp_path) as gate:
        edges = np.array([30.0, 60.0])
        gate.answered_on(three, edges)
        edges[0] = 0.0
        gate.answered_on(three, edges)
    with restarted(tmp_path) as gate:
        first = gate.first_grid(three)
        assert first is not None
        np.testing.assert_array_equal(first, [30.0, 60.0])
        assert gate.first_grid(two) is None


def test_a_question_that_was_admitted_is_admitted_again_and_costs_nothing(
    tmp_path: Path,
) -> None:
    """Even where the limits are reached, and the study has long gone on from there."""
    policy = Policy(blocks={"times": 1}, parameters={"rounds": 3})
    path = [replace(BLOCK, beta=along(0.0)), at(along(2.5)), at(along(4.9))]
    for _ in range(3):
        with restarted(tmp_path, policy) as gate:
            for number, request in enumerate(path):
                gate.admit(request, Known(), question(number))
                gate.admit(request, Known(), question(number))
            assert (gate.rounds, gate.blocks) == (3, 1)
    with restarted(tmp_path, policy) as gate:
        assert "[parameters] rounds" in refused(gate, path[0], Known())
        assert gate.rounds == 3


def test_a_repeated_question_is_no_place_to_go_on_from(tmp_path: Path) -> None:
    with restarted(tmp_path) as gate:
        gate.admit(at(along(0.0)), Known(), question(0))
        gate.admit(at(along(2.5)), Known(), question(1))
        gate.admit(at(along(4.9)), Known(), question(2))
        gate.admit(at(along(0.0)), Known(), question(0))
        assert refused(gate, at(along(0.5)), Known()) == ["[parameters] beta_step"]


def test_a_stricter_policy_holds_for_repeated_questions_too(tmp_path: Path) -> None:
    with restarted(tmp_path) as gate:
        gate.admit(GRADIENT, Known(level=6), question(0))
    stricter = Policy(groups={"level": 10})
    with (
        restarted(tmp_path, stricter) as gate,
        pytest.raises(RefusedError, match=r"\[groups\] level"),
    ):
        gate.admit(GRADIENT, Known(level=6), question(0))


def test_a_refused_question_is_not_one_that_was_admitted(tmp_path: Path) -> None:
    with restarted(tmp_path) as gate:
        for _ in range(2):
            with pytest.raises(RefusedError, match=r"\[parameters\] beta"):
                gate.admit(at(along(9.0)), Known(), question(0))


@settings(max_examples=20, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 5), st.booleans(), st.booleans()), min_size=1, max_size=25
    )
)
def test_jobs_cut_anywhere_count_as_one(
    tmp_path_factory: pytest.TempPathFactory, asked: list[tuple[int, bool, bool]]
) -> None:
    """Against a plain count of distinct questions, whenever the center is restarted."""
    folder = tmp_path_factory.mktemp("gate")
    policy = Policy(blocks={"times": 2}, parameters={"rounds": 4}, questions={"refusals": 999})
    admitted: dict[bytes, bool] = {}
    memory = StudyMemory(folder / "study")
    gate = Gate(policy, memory)
    for number, block, restart in asked:
        if restart:
            memory.close()
            memory = StudyMemory(folder / "study")
            gate = Gate(policy, memory)
        name = question(2 * number + block)
        blocks = sum(admitted.values())
        room = len(admitted) < 4 and not (block and blocks >= 2)
        try:
            gate.admit(BLOCK if block else GRADIENT, Known(), name)
            assert name in admitted or room
            admitted.setdefault(name, block)
        except RefusedError:
            assert name not in admitted
            assert not room
        assert (gate.rounds, gate.blocks) == (len(admitted), sum(admitted.values()))
    memory.close()


@pytest.mark.parametrize("kind", ["admitted", "refused"])
def test_power_lost_at_any_moment_never_lets_more_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    request = GRADIENT if kind == "admitted" else at(along(9.0))
    stops = 0
    for call in range(1, 100):
        folder = tmp_path / str(call)
        left = 0
        with restarted(folder) as gate, monkeypatch.context() as patch:
            cut_before(patch, call)
            try:
                for number in range(3):
                    try:
                        gate.admit(request, Known(), question(number))
                    except RefusedError:
                        assert kind == "refused"
                    left += 1
            except PowerCut:
                stops += 1
            else:
                break
        with StudyMemory(folder / "study") as memory:
            answered = memory.now.answered
            counted = answered.past.rounds if kind == "admitted" else answered.refusals
            assert left <= counted <= left + 1
    assert stops >= 12


def test_what_cannot_be_written_is_not_admitted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with restarted(tmp_path) as gate:
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", lambda handle: (_ for _ in ()).throw(OSError(5, "gone")))
            with pytest.raises(RefusedError, match=r"nothing is answered"):
                gate.admit(GRADIENT, Known(), question(0))
        assert gate.rounds == 0
        gate.admit(GRADIENT, Known(), question(0))
        assert gate.rounds == 1


@pytest.mark.parametrize("remembering", [False, True])
def test_questions_at_the_same_moment_do_not_share_the_last_round(
    tmp_path: Path, remembering: bool
) -> None:
    policy = Policy(parameters={"rounds": 5})
    memory = StudyMemory(tmp_path / "study") if remembering else None
    gate, passed = Gate(policy, memory), []
    begin = threading.Barrier(8)

    def ask(number: int) -> None:
        begin.wait()
        for each in range(4):
            if not refused(gate, GRADIENT, Known()):
                passed.append((number, each))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(passed) == gate.rounds == 5
    if memory is not None:
        memory.close()


def test_without_a_memory_everything_counts_as_before() -> None:
    gate = Gate(Policy(parameters={"rounds": 2}))
    request: Request = GRADIENT
    for _ in range(2):
        gate.admit(request, Known(), question(0))
    assert refused(gate, replace(request, alpha=ALPHA)) == ["[parameters] rounds"]
    assert not gate.remembers


def test_nothing_but_counts_parameters_and_fingerprints_is_written(tmp_path: Path) -> None:
    """No name of a question, no count of patients: a lost disk tells what it must."""
    with restarted(tmp_path) as gate:
        gate.admit(GRADIENT, Known(level=17, share=0.123456, patients=4242), question(0))
    text = (tmp_path / "study" / "study.json").read_text()
    found: list[Any] = [word for word in ("gradient", "4242", "0.123456") if word in text]
    assert not found
